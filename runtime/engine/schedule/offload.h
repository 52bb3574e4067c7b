/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer state in pinned host memory, as with Megatron's --optimizer-cpu-offload. It is updated
 * on the device through two buffers: one stream fills the next one while the present one is
 * updated, and another stream copies the last one back. So the numbers are the same as without it,
 * and the copies overlap with the passes before the update. */
#ifndef MEGATRON_OFFLOAD_H
#define MEGATRON_OFFLOAD_H

#include "engine/device/device.h"

/* The types of the optimizer's arrays. */
struct state_types {
    int master;                        /* are there master weights? They are fp32. */
    enum device_type moment1, moment2; /* fp32 or bf16 */
};

/* Part of these arrays; NULL: not needed. */
struct offload_arrays {
    float *master;
    void *moment1, *moment2;
};

struct offload;

/* Elements of a buffer if 'hosted' elements are in host memory, and the bytes of device memory that
 * both buffers need. */
int64_t offload_buffer_elements(int64_t hosted);
size_t offload_memory(int64_t hosted);

/* NULL with 'err' set. 'device' must outlive it. Caller must destroy. */
struct offload *offload_create(struct device *device, int64_t hosted,
                               const struct state_types *types, struct error *err);
void offload_destroy(struct offload *offload);

/* Before the first offload_take of a step. Here and in offload_settle NULL is allowed. */
void offload_begin(struct offload *offload);

/* Copy 'count' elements to device memory, which 'stream' may use up to offload_give; offload_give
 * copies the arrays of its 'host' back. Buffers are taken and given in turn. */
struct offload_arrays offload_take(struct offload *offload, struct device_stream *stream,
                                   const struct offload_arrays *host, int64_t count);
void offload_give(struct offload *offload, struct device_stream *stream,
                  const struct offload_arrays *host, int64_t count);

/* Make 'stream' wait until all of the state is in host memory. */
void offload_settle(struct offload *offload, struct device_stream *stream);

#endif

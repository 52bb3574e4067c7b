/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of the optimizer for this rank's shards: two moments and, if the weights are not fp32
 * or some are kept in fp8, master weights. The first 'hosted' elements of each may be in host
 * memory (see offload.h), the others are on the device. */
#ifndef MEGATRON_OPTIMIZER_STATE_H
#define MEGATRON_OPTIMIZER_STATE_H

#include "offload.h"

struct optimizer_state {
    struct device *device;
    struct state_types types;
    int64_t elements, hosted;
    struct offload_arrays here; /* of the elements from 'hosted' on; master may be NULL */
    struct offload_arrays host; /* of those before */
    void *memory, *host_memory;
    struct offload *offload; /* NULL: hosted is 0 */
};

/* Which arrays an operation uses. */
enum { STATE_MASTER = 1, STATE_MOMENT1 = 2, STATE_MOMENT2 = 4, STATE_ALL = 7 };

/* Bytes on the device and in host memory, if 'fraction' of the elements is in host memory. */
void optimizer_state_memory(int64_t elements, const struct state_types *types, double fraction,
                            size_t *on_device, size_t *on_host);

/* Bytes per element of all arrays. */
size_t state_bytes(const struct state_types *types);

/* Returns 0 or -1; destroy in both cases. */
int optimizer_state_create(struct optimizer_state *state, struct device *device, int64_t elements,
                           const struct state_types *types, double fraction, struct error *err);
void optimizer_state_destroy(struct optimizer_state *state);

/* How many of 'count' elements from 'first' on can be used at once. */
int64_t optimizer_state_span(const struct optimizer_state *state, int64_t first, int64_t count);

/* Device memory of such elements, for operations on 'stream' up to the matching 'done', which tells
 * the arrays that they have changed. In turn, between offload_begin and offload_settle. */
struct offload_arrays optimizer_state_use(struct optimizer_state *state,
                                          struct device_stream *stream, int64_t first,
                                          int64_t count, int which);
void optimizer_state_done(struct optimizer_state *state, struct device_stream *stream,
                          int64_t first, int64_t count, int changed);

/* Before the first step: set master weights from device memory, and the moments to 0; this waits.
 */
void optimizer_state_set_master(struct optimizer_state *state, struct device_stream *stream,
                                int64_t first, const float *from, int64_t count);
/* Between steps: copy such master weights to device memory. */
void optimizer_state_get_master(struct optimizer_state *state, struct device_stream *stream,
                                int64_t first, float *to, int64_t count);
int optimizer_state_clear(struct optimizer_state *state, struct device_stream *stream,
                          struct error *err);

#endif

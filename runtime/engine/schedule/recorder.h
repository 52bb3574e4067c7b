/* SPDX-License-Identifier: Apache-2.0 */
/* Work that is repeated on a stream, captured once as a graph and then launched as a whole: for
 * small models launching kernels one by one takes longer than running them. */
#ifndef MEGATRON_RECORDER_H
#define MEGATRON_RECORDER_H

#include "engine/device/device.h"

struct recorder;

/* For 'count' different sequences of work on 'stream'. Caller must destroy, before the plans of the
 * work. */
struct recorder *recorder_create(struct device_stream *stream, int count);
void recorder_destroy(struct recorder *recorder);

/* Run sequence 'number': 'run' enqueues it, always the same operations with the same operands, and
 * uses no other stream. If the device cannot capture graphs, it is called each time. */
void recorder_run(struct recorder *recorder, int number, void (*run)(void *context), void *context);

#endif

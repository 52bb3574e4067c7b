/* Work that is given to a stream again and again, recorded once and then launched as a whole: for
 * small models giving out kernels one by one takes longer than running them. */
#ifndef MEGATRON_RECORDER_H
#define MEGATRON_RECORDER_H

#include "device.h"

struct recorder;

/* For 'count' different pieces of work of 'stream'. NULL with 'err' set. Caller must destroy,
 * before the plans of the work. */
struct recorder *recorder_create(struct device_stream *stream, int count, struct error *err);
void recorder_destroy(struct recorder *recorder);

/* Do piece 'number': 'run' gives it to the stream, always the same operations with the same
 * operands, and touches no other stream. Where the device cannot record, each time. */
void recorder_run(struct recorder *recorder, int number, void (*run)(void *context), void *context);

#endif

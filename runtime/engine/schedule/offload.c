/* SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

/* A buffer is large enough for the full speed of copies, and a small part of the whole. */
enum { BUFFERS = 2, ARRAYS = 3, LARGEST = 4 << 20, SHARE = 16, UNIT = 128 };

struct buffer {
    struct offload_arrays arrays;
    struct device_event *filled, *updated, *emptied;
};

struct offload {
    struct device *device;
    struct state_types types;
    struct device_stream *in, *out;
    struct device_event *settled;
    char *memory;
    struct buffer buffers[BUFFERS];
    int64_t taken; /* buffers so far */
};

int64_t offload_buffer_elements(int64_t hosted)
{
    int64_t count = (hosted + SHARE - 1) / SHARE;

    count = count < LARGEST ? count : LARGEST;
    return (count + UNIT - 1) / UNIT * UNIT;
}

/* Sized for fp32 even if arrays are bf16: these buffers are small. */
size_t offload_memory(int64_t hosted)
{
    return (size_t)(BUFFERS * ARRAYS * offload_buffer_elements(hosted)) * sizeof(float);
}

struct offload *offload_create(struct device *device, int64_t hosted,
                               const struct state_types *types, struct error *err)
{
    struct offload *o = xcalloc(1, sizeof(*o));
    int64_t count = offload_buffer_elements(hosted);

    o->device = device;
    o->types = *types;
    o->in = device_stream_create(device, 1);
    o->out = device_stream_create(device, 1);
    o->settled = device_event_create(device, 0);
    o->memory = device_allocate(device, offload_memory(hosted), err);
    if (!o->memory) {
        error_prefix(err, "optimizer");
        offload_destroy(o);
        return NULL;
    }
    for (int i = 0; i < BUFFERS; i++) {
        float *memory = (float *)o->memory + ARRAYS * i * count;

        o->buffers[i] = (struct buffer){.arrays = {memory, memory + count, memory + 2 * count},
                                        .filled = device_event_create(device, 0),
                                        .updated = device_event_create(device, 0),
                                        .emptied = device_event_create(device, 0)};
    }
    return o;
}

void offload_destroy(struct offload *o)
{
    if (!o)
        return;
    for (int i = 0; i < BUFFERS; i++) {
        device_event_destroy(o->buffers[i].filled);
        device_event_destroy(o->buffers[i].updated);
        device_event_destroy(o->buffers[i].emptied);
    }
    device_event_destroy(o->settled);
    device_stream_destroy(o->in);
    device_stream_destroy(o->out);
    device_release(o->device, o->memory);
    free(o);
}

/* This step reads what the last one wrote. */
void offload_begin(struct offload *o)
{
    if (o)
        offload_settle(o, o->in);
}

void offload_settle(struct offload *o, struct device_stream *stream)
{
    if (!o)
        return;
    device_event_record(o->settled, o->out);
    device_event_follow(stream, o->settled);
}

static void copy(struct device_stream *stream, void *to, const void *from, enum device_type type,
                 int64_t count, enum device_copy direction)
{
    if (to && from)
        device_copy(stream, to, from, (size_t)count * type_size(type), direction);
}

static void copy_all(const struct offload *o, struct device_stream *stream,
                     const struct offload_arrays *to, const struct offload_arrays *from,
                     int64_t count, enum device_copy direction)
{
    copy(stream, to->master, from->master, TYPE_FP32, count, direction);
    copy(stream, to->moment1, from->moment1, o->types.moment1, count, direction);
    copy(stream, to->moment2, from->moment2, o->types.moment2, count, direction);
}

struct offload_arrays offload_take(struct offload *o, struct device_stream *stream,
                                   const struct offload_arrays *host, int64_t count)
{
    struct buffer *buffer = &o->buffers[o->taken % BUFFERS];
    struct offload_arrays here = {host->master ? buffer->arrays.master : NULL,
                                  host->moment1 ? buffer->arrays.moment1 : NULL,
                                  host->moment2 ? buffer->arrays.moment2 : NULL};

    device_event_follow(o->in, buffer->emptied);
    copy_all(o, o->in, &here, host, count, COPY_TO_DEVICE);
    device_event_record(buffer->filled, o->in);
    device_event_follow(stream, buffer->filled);
    return here;
}

void offload_give(struct offload *o, struct device_stream *stream,
                  const struct offload_arrays *host, int64_t count)
{
    struct buffer *buffer = &o->buffers[o->taken++ % BUFFERS];

    device_event_record(buffer->updated, stream);
    device_event_follow(o->out, buffer->updated);
    copy_all(o, o->out, host, &buffer->arrays, count, COPY_TO_HOST);
    device_event_record(buffer->emptied, o->out);
}

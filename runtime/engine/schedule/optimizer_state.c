/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer_state.h"
#include "engine/device/plans.h"

#include <string.h>

enum { UNIT = 128 }; /* elements: the device's part is aligned */

static int64_t hosted_of(int64_t elements, double fraction)
{
    int64_t hosted = (int64_t)((double)elements * fraction + 0.5);

    return hosted >= elements ? elements : hosted / UNIT * UNIT;
}

size_t state_bytes(const struct state_types *types)
{
    return (types->master ? sizeof(float) : 0) + type_size(types->moment1) +
           type_size(types->moment2);
}

void optimizer_state_memory(int64_t elements, const struct state_types *types, double fraction,
                            size_t *on_device, size_t *on_host)
{
    int64_t hosted = hosted_of(elements, fraction);

    *on_host = (size_t)hosted * state_bytes(types);
    *on_device = (size_t)(elements - hosted) * state_bytes(types);
    if (hosted > 0)
        *on_device += offload_memory(hosted);
}

/* 'count' is a multiple of UNIT, so that all arrays are aligned. */
static struct offload_arrays divide(char *memory, int64_t count, const struct state_types *types)
{
    char *moment2 = memory + (size_t)count * type_size(types->moment1);
    char *master = moment2 + (size_t)count * type_size(types->moment2);

    return (struct offload_arrays){types->master ? (float *)master : NULL, memory, moment2};
}

int optimizer_state_create(struct optimizer_state *s, struct device *device, int64_t elements,
                           const struct state_types *types, double fraction, struct error *err)
{
    int64_t hosted = hosted_of(elements, fraction), rest = elements - hosted;

    *s = (struct optimizer_state){
        .device = device, .types = *types, .elements = elements, .hosted = hosted};
    s->memory = device_allocate(device, (size_t)rest * state_bytes(types), err);
    if (!s->memory)
        return error_prefix(err, "optimizer");
    s->here = divide(s->memory, rest, types);
    if (hosted == 0)
        return 0;
    s->host_memory = device_host_allocate(device, (size_t)hosted * state_bytes(types), err);
    if (!s->host_memory)
        return error_prefix(err, "optimizer");
    s->host = divide(s->host_memory, hosted, types);
    s->offload = offload_create(device, hosted, types, err);
    return s->offload ? 0 : -1;
}

void optimizer_state_destroy(struct optimizer_state *s)
{
    offload_destroy(s->offload);
    if (s->device) {
        device_release(s->device, s->memory);
        device_host_release(s->device, s->host_memory);
    }
    memset(s, 0, sizeof(*s));
}

int64_t optimizer_state_span(const struct optimizer_state *s, int64_t first, int64_t count)
{
    int64_t most = offload_buffer_elements(s->hosted), left = s->hosted - first;

    if (left <= 0)
        return count;
    left = left < most ? left : most;
    return count < left ? count : left;
}

static void *at(void *array, enum device_type type, int64_t first)
{
    return (char *)array + (size_t)first * type_size(type);
}

static struct offload_arrays part(const struct optimizer_state *s,
                                  const struct offload_arrays *arrays, int64_t first, int which)
{
    return (struct offload_arrays){
        which & STATE_MASTER && arrays->master ? arrays->master + first : NULL,
        which & STATE_MOMENT1 ? at(arrays->moment1, s->types.moment1, first) : NULL,
        which & STATE_MOMENT2 ? at(arrays->moment2, s->types.moment2, first) : NULL};
}

struct offload_arrays optimizer_state_use(struct optimizer_state *s, struct device_stream *stream,
                                          int64_t first, int64_t count, int which)
{
    struct offload_arrays host;

    if (first >= s->hosted)
        return part(s, &s->here, first - s->hosted, which);
    host = part(s, &s->host, first, which);
    return offload_take(s->offload, stream, &host, count);
}

void optimizer_state_done(struct optimizer_state *s, struct device_stream *stream, int64_t first,
                          int64_t count, int changed)
{
    struct offload_arrays host;

    if (first >= s->hosted)
        return;
    host = part(s, &s->host, first, changed);
    offload_give(s->offload, stream, &host, count);
}

void optimizer_state_set_master(struct optimizer_state *s, struct device_stream *stream,
                                int64_t first, const float *from, int64_t count)
{
    int64_t left = s->hosted - first, hosted = left < 0 ? 0 : left < count ? left : count;

    if (hosted > 0)
        device_copy(stream, s->host.master + first, from, (size_t)hosted * sizeof(float),
                    COPY_TO_HOST);
    if (hosted < count)
        device_copy(stream, s->here.master + first + hosted - s->hosted, from + hosted,
                    (size_t)(count - hosted) * sizeof(float), COPY_ON_DEVICE);
}

void optimizer_state_get_master(struct optimizer_state *s, struct device_stream *stream,
                                int64_t first, float *to, int64_t count)
{
    int64_t left = s->hosted - first, hosted = left < 0 ? 0 : left < count ? left : count;

    if (hosted > 0)
        device_copy(stream, to, s->host.master + first, (size_t)hosted * sizeof(float),
                    COPY_TO_DEVICE);
    if (hosted < count)
        device_copy(stream, to + hosted, s->here.master + first + hosted - s->hosted,
                    (size_t)(count - hosted) * sizeof(float), COPY_ON_DEVICE);
}

/* The first array is moment1, the second moment2. */
static size_t moment_bytes(const struct optimizer_state *s)
{
    return type_size(s->types.moment1) + type_size(s->types.moment2);
}

int optimizer_state_clear(struct optimizer_state *s, struct device_stream *stream,
                          struct error *err)
{
    size_t bytes = (size_t)(s->elements - s->hosted) * moment_bytes(s);
    struct operation op = {.kind = OPERATION_FILL,
                           .fill = {(int64_t)(bytes / sizeof(float)), TYPE_FP32, 0}};
    struct fill_operands operands = {s->here.moment1};

    if (op.fill.count > 0 && plan_run_once(stream, &op, &operands, sizeof(operands), err) < 0)
        return -1;
    if (s->hosted > 0)
        memset(s->host.moment1, 0, (size_t)s->hosted * moment_bytes(s));
    return 0;
}

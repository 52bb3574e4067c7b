/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer_state.h"

#include <string.h>

enum { UNIT = 128 }; /* elements: the device's part is aligned */

static int64_t hosted_of(int64_t elements, double fraction)
{
    int64_t hosted = (int64_t)((double)elements * fraction + 0.5);

    return hosted >= elements ? elements : hosted / UNIT * UNIT;
}

void optimizer_state_memory(int64_t elements, int arrays, double fraction, size_t *on_device,
                            size_t *on_host)
{
    int64_t hosted = hosted_of(elements, fraction);

    *on_host = (size_t)(arrays * hosted) * sizeof(float);
    *on_device = (size_t)(arrays * (elements - hosted)) * sizeof(float);
    if (hosted > 0)
        *on_device += offload_memory(hosted);
}

static struct offload_arrays divide(float *memory, int64_t count, int arrays)
{
    return (struct offload_arrays){arrays == 3 ? memory + 2 * count : NULL, memory, memory + count};
}

int optimizer_state_create(struct optimizer_state *s, struct device *device, int64_t elements,
                           int arrays, double fraction, struct error *err)
{
    int64_t hosted = hosted_of(elements, fraction), rest = elements - hosted;

    *s = (struct optimizer_state){.device = device, .elements = elements, .hosted = hosted};
    s->memory = device_allocate(device, (size_t)(arrays * rest) * sizeof(float), err);
    if (!s->memory)
        return error_prefix(err, "optimizer");
    s->here = divide(s->memory, rest, arrays);
    if (hosted == 0)
        return 0;
    s->host_memory = device_host_allocate(device, (size_t)(arrays * hosted) * sizeof(float), err);
    if (!s->host_memory)
        return error_prefix(err, "optimizer");
    s->host = divide(s->host_memory, hosted, arrays);
    s->offload = offload_create(device, hosted, err);
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

static struct offload_arrays part(const struct offload_arrays *arrays, int64_t first, int which)
{
    return (struct offload_arrays){which & STATE_MASTER && arrays->master ? arrays->master + first
                                                                          : NULL,
                                   which & STATE_MOMENT1 ? arrays->moment1 + first : NULL,
                                   which & STATE_MOMENT2 ? arrays->moment2 + first : NULL};
}

void optimizer_state_begin(struct optimizer_state *s)
{
    if (s->offload)
        offload_begin(s->offload);
}

struct offload_arrays optimizer_state_use(struct optimizer_state *s, struct device_stream *stream,
                                          int64_t first, int64_t count, int which)
{
    struct offload_arrays host;

    if (first >= s->hosted)
        return part(&s->here, first - s->hosted, which);
    host = part(&s->host, first, which);
    return offload_take(s->offload, stream, &host, count);
}

void optimizer_state_done(struct optimizer_state *s, struct device_stream *stream, int64_t first,
                          int64_t count, int changed)
{
    struct offload_arrays host;

    if (first >= s->hosted)
        return;
    host = part(&s->host, first, changed);
    offload_give(s->offload, stream, &host, count);
}

void optimizer_state_end(struct optimizer_state *s, struct device_stream *stream)
{
    if (s->offload)
        offload_settle(s->offload, stream);
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

int optimizer_state_clear(struct optimizer_state *s, struct device_stream *stream,
                          struct error *err)
{
    struct operation op = {.kind = OPERATION_FILL,
                           .fill = {2 * (s->elements - s->hosted), TYPE_FP32, 0}};
    struct device_plan *plan = plan_create(s->device, &op, err);
    int rc;

    if (!plan)
        return -1;
    if (op.fill.count > 0)
        run_fill(plan, stream, &(struct fill_operands){s->here.moment1});
    rc = device_stream_wait(stream, 600, err);
    plan_destroy(plan);
    if (rc == 0 && s->hosted > 0)
        memset(s->host.moment1, 0, (size_t)(2 * s->hosted) * sizeof(float));
    return rc;
}

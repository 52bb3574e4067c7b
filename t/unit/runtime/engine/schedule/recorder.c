/* SPDX-License-Identifier: Apache-2.0 */
/* Captured work: done as often as requested, in stream order, and submitted to the device operation
 * by operation only twice. */
#include "tap.h"
#include "engine/schedule/recorder.h"

#include <stdlib.h>

enum { COUNT = 1000, ROUNDS = 6 };

struct work {
    struct device_stream *stream;
    struct device_plan *add, *fill;
    float *one, *sum, *copied;
    int given;
};

/* sum += 1, and a copy of it. */
static void run(void *context)
{
    struct work *w = context;

    w->given++;
    run_add(w->add, w->stream, &(struct add_operands){w->one, w->sum});
    device_copy(w->stream, w->copied, w->sum, COUNT * sizeof(float), COPY_ON_DEVICE);
}

static int holds(struct work *w, const float *x, float value)
{
    struct device *device = w->stream->device;
    struct error err;
    float *host = device_host_allocate(device, COUNT * sizeof(float), &err);
    int same = host != NULL;

    device_copy(w->stream, host, x, COUNT * sizeof(float), COPY_TO_HOST);
    if (device_stream_wait(w->stream, 60, &err) < 0) {
        diag("%s", err.text);
        same = 0;
    }
    for (int i = 0; i < COUNT && same; i++)
        same = host[i] == value;
    device_host_release(device, host);
    return same;
}

static void clear(struct work *w)
{
    run_fill(w->fill, w->stream, &(struct fill_operands){w->sum});
}

static void test_rounds(struct work *w, const char *order)
{
    struct recorder *recorder = recorder_create(w->stream, 2);

    clear(w);
    w->given = 0;
    for (int i = 0; i < ROUNDS; i++)
        recorder_run(recorder, 1, run, w);
    ok(holds(w, w->sum, ROUNDS) && holds(w, w->copied, ROUNDS), "%s: done each time", order);
    ok(w->given == 2, "%s: run once, recorded once, then launched", order);
    /* Other work keeps its place between launches. */
    recorder_run(recorder, 1, run, w);
    clear(w);
    recorder_run(recorder, 1, run, w);
    ok(holds(w, w->sum, 1), "%s: in the order of the stream", order);
    recorder_run(recorder, 0, run, w);
    ok(w->given == 3, "%s: another piece is another recording", order);
    ok(holds(w, w->sum, 2), "%s: and done as well", order);
    recorder_destroy(recorder);
}

static int refuse_begin(struct device_stream *stream, struct error *err)
{
    (void)stream;
    return error_set(err, "no");
}

static struct device_graph *(*true_end)(struct device_stream *stream, struct error *err);

static struct device_graph *refuse_end(struct device_stream *stream, struct error *err)
{
    device_graph_destroy(true_end(stream, err));
    return NULL;
}

static void test_unrecorded(struct work *w, const char *why)
{
    struct recorder *recorder = recorder_create(w->stream, 1);

    clear(w);
    for (int i = 0; i < ROUNDS; i++)
        recorder_run(recorder, 0, run, w);
    ok(holds(w, w->sum, ROUNDS), "%s: done each time all the same", why);
    recorder_destroy(recorder);
}

/* Devices that cannot capture, or not this work. */
static void test_refusals(struct work *w)
{
    struct device *device = w->stream->device, before = *device;

    device->can_capture = 0;
    test_unrecorded(w, "a device that cannot record");
    device->can_capture = 1;
    device->graph_begin = refuse_begin;
    test_unrecorded(w, "a recording that does not begin");
    device->graph_begin = before.graph_begin;
    true_end = device->graph_end;
    device->graph_end = refuse_end;
    test_unrecorded(w, "a recording that comes to nothing");
    *device = before;
}

static int test_device(const char *name, int random_order)
{
    struct device_options options = {.threads = 2, .random_order = random_order, .order_seed = 5};
    struct operation add = {.kind = OPERATION_ADD, .add = {COUNT, TYPE_FP32}};
    struct operation one = {.kind = OPERATION_FILL, .fill = {COUNT, TYPE_FP32, 1}};
    struct operation zero = {.kind = OPERATION_FILL, .fill = {COUNT, TYPE_FP32, 0}};
    struct error err;
    struct device *device = device_open(name, &options, &err);
    struct work w = {NULL};
    struct device_plan *ones;
    float *memory;

    if (!device)
        return skip_all(err.text);
    w.stream = device_stream_create(device, 0);
    memory = device_allocate(device, 3 * COUNT * sizeof(float), &err);
    w.one = memory, w.sum = memory + COUNT, w.copied = memory + 2 * COUNT;
    w.add = plan_create(device, &add, &err);
    w.fill = plan_create(device, &zero, &err);
    ones = plan_create(device, &one, &err);
    run_fill(ones, w.stream, &(struct fill_operands){w.one});
    test_rounds(&w, random_order ? "random order" : "in order");
    test_refusals(&w);
    plan_destroy(ones);
    plan_destroy(w.add), plan_destroy(w.fill);
    device_release(device, memory);
    device_stream_destroy(w.stream);
    device_close(device);
    return 0;
}

/* On CPUs captured work must not contain events: it fails there, before it would on a GPU. */
static void test_event(void)
{
    struct device_options options = {.threads = 1};
    struct error err;
    struct device *device = device_open("cpu", &options, &err);
    struct device_stream *stream = device_stream_create(device, 0);
    struct device_event *event = device_event_create(device, 0);

    device_graph_begin(stream, &err);
    device_event_record(event, stream);
    device_graph_destroy(device_graph_end(stream, &err));
    ok(device_stream_wait(stream, 1, &err) < 0 && strstr(err.text, "event"),
       "an event in recorded work is rejected");
    device_event_destroy(event);
    device_stream_destroy(stream);
    device_close(device);
}

int main(void)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE");

    if (test_device(name ? name : "cpu", 0))
        return 0;
    if (!name)
        test_device("cpu", 1);
    test_event();
    return done_testing();
}

/* Recorded work: done as often as it is asked for, in the order of its stream, and given to the
 * device one by one only twice. */
#include "tap.h"
#include "recorder.h"

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
    struct error err;
    struct recorder *recorder = recorder_create(w->stream, 2, &err);

    clear(w);
    w->given = 0;
    for (int i = 0; i < ROUNDS; i++)
        recorder_run(recorder, 1, run, w);
    ok(holds(w, w->sum, ROUNDS) && holds(w, w->copied, ROUNDS), "%s: done each time", order);
    ok(w->given == 2, "%s: run once, recorded once, then launched", order);
    /* Work of other kinds keeps its place between launches. */
    recorder_run(recorder, 1, run, w);
    clear(w);
    recorder_run(recorder, 1, run, w);
    ok(holds(w, w->sum, 1), "%s: in the order of the stream", order);
    recorder_run(recorder, 0, run, w);
    ok(w->given == 3, "%s: another piece is another recording", order);
    ok(holds(w, w->sum, 2), "%s: and done as well", order);
    recorder_destroy(recorder);
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
    w.stream = device_stream_create(device, 0, &err);
    memory = device_allocate(device, 3 * COUNT * sizeof(float), &err);
    w.one = memory, w.sum = memory + COUNT, w.copied = memory + 2 * COUNT;
    w.add = plan_create(device, &add, &err);
    w.fill = plan_create(device, &zero, &err);
    ones = plan_create(device, &one, &err);
    run_fill(ones, w.stream, &(struct fill_operands){w.one});
    test_rounds(&w, random_order ? "random order" : "in order");
    plan_destroy(ones);
    plan_destroy(w.add), plan_destroy(w.fill);
    device_release(device, memory);
    device_stream_destroy(w.stream);
    device_close(device);
    return 0;
}

int main(void)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE");

    if (test_device(name ? name : "cpu", 0))
        return 0;
    if (!name)
        test_device("cpu", 1);
    return done_testing();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Communication on streams of the CPU device: started when submitted, polled in passing, finished
 * before anything that follows or waits for it. */
#include "tap.h"
#include "engine/device/device.h"

#include <string.h>

enum { TURNS = 5, COUNT = 8 };

/* A message that arrives after it has been polled this many times. */
struct message {
    int *asked, *waited; /* total polls, and those by a waiting caller */
    float *to;
    int turns, done;
};

static int ask(void *operands, int waits)
{
    struct message *m = operands;

    (*m->asked)++;
    *m->waited += waits;
    if (++m->done < m->turns)
        return 0;
    *m->to = 1;
    return 1;
}

struct world {
    struct device *device;
    struct device_stream *compute, *side;
    struct device_event *event;
    struct device_plan *add;
    float *one, *sum;
    float arrived;
    int asked, waited;
};

static struct message message(struct world *w, int turns)
{
    w->arrived = 0;
    w->asked = w->waited = 0;
    return (struct message){&w->asked, &w->waited, &w->arrived, turns, 0};
}

static void give(struct world *w, struct device_stream *stream, int turns, int later)
{
    struct message m = message(w, turns);

    device_stream_poll(stream, ask, &m, sizeof(m), later);
}

static void compute(struct world *w)
{
    run_add(w->add, w->compute, &(struct add_operands){w->one, w->sum});
}

static void test_in_order(struct world *w)
{
    struct error err;

    give(w, w->compute, TURNS, 0);
    ok(w->arrived == 1 && w->asked == TURNS, "without 'later' it is completed immediately");

    give(w, w->side, TURNS, 1);
    ok(w->asked == 1 && w->waited == 0, "with it, it is begun and nobody waits");
    compute(w);
    compute(w);
    ok(w->asked == 3 && w->waited == 0, "work of another stream asks in passing");
    device_event_record(w->event, w->side);
    ok(w->arrived == 0 && !device_event_done(w->event), "an event after it has not passed");
    device_event_follow(w->compute, w->event);
    ok(w->arrived == 1, "work that waits for that event finds it done");

    give(w, w->side, TURNS, 1);
    device_copy(w->side, w->sum, &w->arrived, sizeof(float), COPY_ON_DEVICE);
    ok(w->sum[0] != 1, "a copy after it waits");
    ok(device_stream_wait(w->side, 60, &err) == 0 && w->sum[0] == 1 && w->waited > 0,
       "and both are done when a caller waits for the stream");

    give(w, w->side, TURNS, 1);
    device_event_record(w->event, w->side);
    ok(device_event_wait(w->event, 60, &err) == 0 && w->arrived == 1, "or for the event");
}

static void test_random_order(struct world *w)
{
    struct error err;

    for (int i = 0; i < COUNT; i++) {
        give(w, w->side, TURNS, i % 2);
        device_event_record(w->event, w->side);
        device_event_follow(w->compute, w->event);
        device_copy(w->compute, w->sum, &w->arrived, sizeof(float), COPY_ON_DEVICE);
        if (device_stream_wait(w->compute, 60, &err) < 0 || w->sum[0] != 1 || w->asked != TURNS)
            break;
        if (i == COUNT - 1) {
            ok(1, "streams in random order: done before later work");
            return;
        }
    }
    ok(0, "streams in random order: done before later work");
}

static void test_recorded(struct world *w)
{
    struct error err, why;
    struct device_graph *graph;

    ok(device_graph_begin(w->compute, &err) == 0, "work is recorded");
    give(w, w->compute, 1, 0);
    graph = device_graph_end(w->compute, &err);
    ok(device_stream_wait(w->compute, 60, &why) < 0 && strstr(why.text, "recorded"),
       "communication in it is rejected");
    device_graph_destroy(graph);
}

static void test(int random_order, void (*run)(struct world *w))
{
    struct device_options options = {.threads = 1, .random_order = random_order, .order_seed = 7};
    struct operation op = {.kind = OPERATION_ADD, .add = {COUNT, TYPE_FP32}};
    struct world w = {0};
    struct error err;

    w.device = device_open("cpu", &options, &err);
    w.compute = device_stream_create(w.device, 0);
    w.side = device_stream_create(w.device, 1);
    w.event = device_event_create(w.device, 0);
    w.add = plan_create(w.device, &op, &err);
    w.one = device_allocate(w.device, COUNT * sizeof(float), &err);
    w.sum = device_allocate(w.device, COUNT * sizeof(float), &err);
    memset(w.one, 0, COUNT * sizeof(float));
    memset(w.sum, 0, COUNT * sizeof(float));
    run(&w);
    plan_destroy(w.add);
    device_event_destroy(w.event);
    device_stream_destroy(w.side);
    device_stream_destroy(w.compute);
    device_release(w.device, w.one);
    device_release(w.device, w.sum);
    device_close(w.device);
}

int main(void)
{
    test(0, test_in_order);
    test(1, test_random_order);
    test(0, test_recorded);
    return done_testing();
}

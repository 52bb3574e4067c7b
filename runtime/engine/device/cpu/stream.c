/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. Usually work is done when it is submitted: a stream is empty and an event has
 * passed, unless communication is in progress on the stream; later work then waits for it. With
 * random_order all work is queued, and a waiting caller runs heads of randomly chosen streams until
 * what it waits for is done: any device could run them in that order. Streams run in bursts, so
 * that now and then one falls far behind another. A missing event then shows as a wrong result. */
#include "cpu.h"
#include "lib/clock.h"
#include "base/core/rng.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum task_kind { TASK_PLAN, TASK_POLL, TASK_COPY, TASK_RECORD, TASK_FOLLOW };

struct cpu_event {
    struct device_event base;
    int64_t recorded, passed; /* number of recordings; the newest one that has passed */
    double time;
};

struct copy_operands {
    void *to;
    const void *from;
    size_t bytes;
};

struct task {
    enum task_kind kind;
    struct cpu_plan *plan;
    int (*poll)(void *operands, int waits);
    struct cpu_event *event;
    int64_t mark; /* recording number of the event */
    struct task *next;
    _Alignas(16) unsigned char operands[DEVICE_OPERANDS];
};

struct tasks {
    struct task *head, *tail;
};

struct cpu_graph {
    struct device_graph base;
    struct tasks tasks;
};

struct cpu_stream {
    struct device_stream base;
    struct tasks tasks;
    struct cpu_graph *recording;
    struct cpu_stream *next; /* of the device */
};

static struct cpu_device *device_of(struct device_stream *stream)
{
    return (struct cpu_device *)stream->device;
}

static struct cpu_stream *stream_of(struct device_stream *stream)
{
    return (struct cpu_stream *)stream;
}

/* Is work queued, on the stream or in a graph being captured? */
static int keeps(struct device_stream *stream)
{
    return device_of(stream)->random_order || stream_of(stream)->recording ||
           stream_of(stream)->tasks.head;
}

static struct task *append(struct device_stream *base, enum task_kind kind)
{
    struct cpu_stream *stream = stream_of(base);
    struct tasks *tasks = stream->recording ? &stream->recording->tasks : &stream->tasks;
    struct task *task = xcalloc(1, sizeof(*task));

    task->kind = kind;
    if (tasks->tail)
        tasks->tail->next = task;
    else
        tasks->head = task;
    tasks->tail = task;
    return task;
}

/* Returns 0 if the task is not finished yet; 'waits': a caller waits for it. */
static int run_task(struct cpu_device *device, struct task *task, int waits)
{
    const struct copy_operands *copy = (const struct copy_operands *)task->operands;

    switch (task->kind) {
    case TASK_PLAN:
        if (!failure_exists(&device->failure))
            cpu_plan_work(task->plan, task->operands);
        break;
    case TASK_POLL:
        return task->poll(task->operands, waits);
    case TASK_COPY:
        memmove(copy->to, copy->from, copy->bytes);
        break;
    case TASK_RECORD:
        task->event->passed = task->mark;
        task->event->time = clock_now();
        break;
    case TASK_FOLLOW:
        break;
    }
    return 1;
}

static int runnable(const struct cpu_stream *stream)
{
    const struct task *head = stream->tasks.head;

    return head && (head->kind != TASK_FOLLOW || head->event->passed >= head->mark);
}

/* The stream to run: the current one or, after its burst, a randomly chosen one for 1 to 128 tasks.
 * NULL if none can proceed. */
static struct cpu_stream *choose(struct cpu_device *device)
{
    uint64_t seen = 0;

    if (device->favoured && device->burst-- > 0 && runnable(device->favoured))
        return device->favoured;
    device->favoured = NULL;
    for (struct cpu_stream *s = device->streams; s; s = s->next) {
        if (!runnable(s))
            continue;
        seen++;
        if (rng_bits(device->order_seed++, RNG_TEST, 0, 0) % seen == 0)
            device->favoured = s;
    }
    device->burst = (int64_t)1 << rng_bits(device->order_seed++, RNG_TEST, 0, 0) % 8;
    return device->favoured;
}

/* Run one task, or poll one that is in progress. Returns 0 if no stream can proceed. */
static int run_any(struct cpu_device *device, int waits)
{
    struct cpu_stream *chosen = choose(device);
    struct task *task;

    if (!chosen)
        return 0;
    task = chosen->tasks.head;
    if (!run_task(device, task, waits)) {
        device->favoured = NULL;
        return 1;
    }
    chosen->tasks.head = task->next;
    if (!chosen->tasks.head)
        chosen->tasks.tail = NULL;
    free(task);
    return 1;
}

void cpu_finish(struct cpu_device *device)
{
    while (run_any(device, 1))
        ;
}

/* Messages only make progress when they are polled. */
static void ask_in_passing(struct cpu_device *device)
{
    if (!device->random_order)
        run_any(device, 0);
}

void cpu_submit(struct device_stream *stream, struct cpu_plan *plan, const void *operands,
                size_t size)
{
    struct task *task;

    if (!keeps(stream)) {
        if (!failure_exists(&device_of(stream)->failure))
            cpu_plan_work(plan, operands);
        ask_in_passing(device_of(stream));
        return;
    }
    task = append(stream, TASK_PLAN);
    task->plan = plan;
    memcpy(task->operands, operands, size);
}

static struct device_stream *stream_create(struct device *base, int high_priority)
{
    struct cpu_device *device = (struct cpu_device *)base;
    struct cpu_stream *stream = xcalloc(1, sizeof(*stream));

    (void)high_priority;
    stream->base.device = base;
    stream->next = device->streams;
    device->streams = stream;
    return &stream->base;
}

static int stream_wait(struct device_stream *base, double seconds, struct error *err)
{
    (void)seconds;
    while (stream_of(base)->tasks.head)
        if (!run_any(device_of(base), 1))
            return error_bug(err, "a stream waits for an event that nothing will record");
    return failure_check(&device_of(base)->failure, err);
}

static void stream_destroy(struct device_stream *base)
{
    struct cpu_device *device = device_of(base);
    struct cpu_stream **link = &device->streams;

    stream_wait(base, 0, NULL);
    device->favoured = NULL;
    while (*link != stream_of(base))
        link = &(*link)->next;
    *link = (*link)->next;
    free(base);
}

static void *stream_native(struct device_stream *stream)
{
    (void)stream;
    return NULL;
}

static void stream_poll(struct device_stream *stream, int (*poll)(void *operands, int waits),
                        const void *operands, size_t size, int later)
{
    int waits = !keeps(stream) && !later;
    struct task *task;

    if (stream_of(stream)->recording) {
        struct error err;

        error_bug(&err, "communication in recorded work");
        device_fail(stream->device, &err);
        return;
    }
    task = append(stream, TASK_POLL);
    task->poll = poll;
    memcpy(task->operands, operands, size);
    ask_in_passing(device_of(stream));
    while (waits && stream_of(stream)->tasks.head)
        run_any(device_of(stream), 1);
}

static struct device_event *event_create(struct device *device, int timing)
{
    struct cpu_event *event = xcalloc(1, sizeof(*event));

    (void)timing;
    event->base.device = device;
    return &event->base;
}

static void event_destroy(struct device_event *event)
{
    struct cpu_device *device = (struct cpu_device *)event->device;

    cpu_finish(device); /* no task may point to it anymore */
    free(event);
}

/* A captured graph does not depend on other streams. */
static int refuse_event(struct device_stream *stream)
{
    struct error err;

    if (!stream_of(stream)->recording)
        return 0;
    error_bug(&err, "an event in recorded work");
    device_fail(stream->device, &err);
    return 1;
}

static void event_record(struct device_event *base, struct device_stream *stream)
{
    struct cpu_event *event = (struct cpu_event *)base;
    struct task *task;

    if (refuse_event(stream))
        return;
    event->recorded++;
    if (!keeps(stream)) {
        event->passed = event->recorded;
        event->time = clock_now();
        return;
    }
    task = append(stream, TASK_RECORD);
    task->event = event;
    task->mark = event->recorded;
}

static int pass_event(struct cpu_event *event, struct error *err)
{
    while (event->passed < event->recorded)
        if (!run_any((struct cpu_device *)event->base.device, 1))
            return error_bug(err, "an event waits for another that nothing will record");
    return 0;
}

static void event_follow(struct device_stream *stream, struct device_event *base)
{
    struct cpu_event *event = (struct cpu_event *)base;
    struct error err;
    struct task *task;

    if (refuse_event(stream) || event->passed >= event->recorded)
        return;
    if (!keeps(stream)) {
        if (pass_event(event, &err) < 0)
            device_fail(stream->device, &err);
        return;
    }
    task = append(stream, TASK_FOLLOW);
    task->event = event;
    task->mark = event->recorded;
}

static int event_wait(struct device_event *base, double seconds, struct error *err)
{
    (void)seconds;
    if (pass_event((struct cpu_event *)base, err) < 0)
        return -1;
    return failure_check(&((struct cpu_device *)base->device)->failure, err);
}

static int event_done(struct device_event *base)
{
    struct cpu_event *event = (struct cpu_event *)base;

    if (event->passed < event->recorded)
        run_any((struct cpu_device *)base->device, 0);
    return event->passed >= event->recorded;
}

static double event_seconds(struct device_event *from, struct device_event *to)
{
    return ((struct cpu_event *)to)->time - ((struct cpu_event *)from)->time;
}

static void copy(struct device_stream *stream, void *to, const void *from, size_t bytes,
                 enum device_copy direction)
{
    struct copy_operands operands = {to, from, bytes};
    struct task *task;

    (void)direction;
    if (!keeps(stream)) {
        memmove(to, from, bytes);
        return;
    }
    task = append(stream, TASK_COPY);
    memcpy(task->operands, &operands, sizeof(operands));
}

static int graph_begin(struct device_stream *stream, struct error *err)
{
    struct cpu_graph *graph = xcalloc(1, sizeof(*graph));

    (void)err;
    graph->base.device = stream->device;
    stream_of(stream)->recording = graph;
    return 0;
}

static struct device_graph *graph_end(struct device_stream *stream, struct error *err)
{
    struct cpu_graph *graph = stream_of(stream)->recording;

    (void)err;
    stream_of(stream)->recording = NULL;
    return &graph->base;
}

static void graph_launch(struct device_graph *base, struct device_stream *stream)
{
    for (struct task *task = ((struct cpu_graph *)base)->tasks.head; task; task = task->next) {
        struct task *copied;

        if (!keeps(stream)) {
            run_task(device_of(stream), task, 1);
            ask_in_passing(device_of(stream));
            continue;
        }
        copied = append(stream, task->kind);
        *copied = *task;
        copied->next = NULL; /* it is the stream's last */
    }
}

static void graph_destroy(struct device_graph *base)
{
    struct cpu_graph *graph = (struct cpu_graph *)base;
    struct task *next;

    for (struct task *task = graph->tasks.head; task; task = next) {
        next = task->next;
        free(task);
    }
    free(graph);
}

void cpu_stream_calls(struct device *device)
{
    DEVICE_SET_STREAM_CALLS(device);
    device->can_capture = 1;
}

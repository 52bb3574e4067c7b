/* SPDX-License-Identifier: Apache-2.0 */
/* The device: memory, streams, events and every kernel of training, behind one interface.
 *
 *     struct operation add = {.kind = OPERATION_ADD, .add = {count, TYPE_BF16}};
 *     struct device *device = device_open("cuda", &options, &err);
 *     struct device_stream *stream = device_stream_create(device, 0);
 *     struct device_plan *plan = plan_create(device, &add, &err);
 *     run_add(plan, stream, &(struct add_operands){x, y});      any number of times
 *     device_stream_wait(stream, deadline, &err);
 *
 * A backend (cpu, cuda) is a `struct device` whose functions the caller reaches through the inline
 * calls below. Work has two phases. plan_create() takes an operation with its whole shape, types
 * and epilogue and creates a plan, which owns descriptors, the chosen algorithm and workspace; it
 * may be slow and may allocate. The run calls take only a plan, a stream and pointers; they never
 * allocate, never wait, and may be captured in a graph.
 *
 * Every operation is bit-identical when repeated, except attention backward on a GPU, unless the
 * device was opened in deterministic mode. Two runs of one plan must not overlap on different
 * streams, because they share the plan's workspace.
 *
 * Errors: plan and memory calls return NULL or -1 with a sentence. Calls of streams and events, run
 * and copy return no error; the first failure is recorded in the device and returned by every later
 * wait.
 *
 * A device operation never contains a collective (comm.h has those). */
#ifndef MEGATRON_DEVICE_H
#define MEGATRON_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "operation.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVICE_ABI       13  /* version of this interface; a backend with another one is rejected */
#define DEVICE_OPERANDS  512 /* maximum size of all operands, in bytes */
#define DEVICE_ALIGNMENT 256 /* alignment in bytes of allocations and of tensors in arenas */

struct device;
struct device_stream;
struct device_event;
struct device_graph;

/* The head of every backend's plan. */
struct device_plan {
    struct device *device;
    enum operation_kind kind;
    void (*run)(struct device_plan *plan, struct device_stream *stream, const void *operands,
                size_t size);
};

struct device_options {
    int index;              /* index among the GPUs visible to the process; -1: by local_rank,
                               round-robin */
    int local_rank;         /* of this process among the ranks of its node */
    int threads;            /* cpu: threads of this rank; 0: all cores the process may use */
    int deterministic;      /* no result may depend on timing */
    int untuned;            /* do not search for the fastest kernels: the first guess will do */
    int unfused_attention;  /* keep scores in memory; dropout is the same on all layouts */
    int random_order;       /* cpu: run streams in random legal order, for tests */
    uint64_t order_seed;    /* seed of that order */
    const char *cache_dir;  /* directory of tuning results, or NULL */
    const char *tuning_dir; /* directory of tuning results that were installed, or NULL */
};

struct device_memory {
    size_t total, available; /* bytes */
};

enum device_copy { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE, COPY_ON_HOST };

/* What a backend implements; the inline calls below document each function. */
struct device {
    int abi;             /* DEVICE_ABI */
    const char *name;    /* "cpu", "cuda" */
    char model[128];     /* for messages: "NVIDIA H200" */
    int can_capture;     /* graph_begin works */
    int asynchronous;    /* enqueued work runs while the host continues */
    int ran_out;         /* out of memory, which then is the reason for a failure */
    struct error advice; /* what is slower than necessary in the settled plans, and why; or "" */

    void (*close)(struct device *device);
    void (*fail)(struct device *device, const struct error *failure);
    int (*memory)(struct device *device, struct device_memory *memory, struct error *err);
    int (*health)(struct device *device, char *text, size_t size, struct error *err);
    int (*supports)(struct device *device, enum device_type type);
    int (*supports_blocks)(struct device *device);

    void *(*allocate)(struct device *device, size_t bytes, struct error *err);
    void (*release)(struct device *device, void *memory);
    void *(*host_allocate)(struct device *device, size_t bytes, struct error *err);
    void (*host_release)(struct device *device, void *memory);

    struct device_stream *(*stream_create)(struct device *device, int high_priority);
    void (*stream_destroy)(struct device_stream *stream);
    int (*stream_wait)(struct device_stream *stream, double seconds, struct error *err);
    void *(*stream_native)(struct device_stream *stream);
    void (*stream_poll)(struct device_stream *stream, int (*poll)(void *operands, int waits),
                        const void *operands, size_t size, int later);

    struct device_event *(*event_create)(struct device *device, int timing);
    void (*event_destroy)(struct device_event *event);
    void (*event_record)(struct device_event *event, struct device_stream *stream);
    void (*event_follow)(struct device_stream *stream, struct device_event *event);
    int (*event_wait)(struct device_event *event, double seconds, struct error *err);
    int (*event_done)(struct device_event *event);
    double (*event_seconds)(struct device_event *from, struct device_event *to);

    void (*copy)(struct device_stream *stream, void *to, const void *from, size_t bytes,
                 enum device_copy direction);

    int (*graph_begin)(struct device_stream *stream, struct error *err);
    struct device_graph *(*graph_end)(struct device_stream *stream, struct error *err);
    void (*graph_launch)(struct device_graph *graph, struct device_stream *stream);
    void (*graph_destroy)(struct device_graph *graph);

    struct device_plan *(*plan_create)(struct device *device, const struct operation *operation,
                                       struct error *err);
    void (*plan_destroy)(struct device_plan *plan);
    /* Finish the plans that are still being made; NULL: plans are made when they are created. */
    void (*settle)(struct device *device);

    /* The choices that timing made for the plans so far, as lines "key value" (the caller frees the
     * text), and a way to create the next plans with such choices, with 'remember' also those of
     * later runs. NULL if nothing is chosen by timing. */
    char *(*choices)(struct device *device, struct error *err);
    int (*choose)(struct device *device, const char *text, int remember, struct error *err);

    /* Call 'each' for every operation from now on with when it began (in seconds from now) and the
     * time it took, immediately or at the stop, which waits for all of them. */
    int (*profile_start)(struct device *device,
                         void (*each)(void *context, const struct operation *operation,
                                      double begin, double seconds),
                         void *context, struct error *err);
    int (*profile_stop)(struct device *device, struct error *err);
};

/* In a backend: set the calls of streams, events, copies and graphs, static functions with the same
 * names. */
#define DEVICE_SET_STREAM_CALLS(device)            \
    do {                                           \
        (device)->stream_create = stream_create;   \
        (device)->stream_destroy = stream_destroy; \
        (device)->stream_wait = stream_wait;       \
        (device)->stream_native = stream_native;   \
        (device)->stream_poll = stream_poll;       \
        (device)->event_create = event_create;     \
        (device)->event_destroy = event_destroy;   \
        (device)->event_record = event_record;     \
        (device)->event_follow = event_follow;     \
        (device)->event_wait = event_wait;         \
        (device)->event_done = event_done;         \
        (device)->event_seconds = event_seconds;   \
        (device)->copy = copy;                     \
        (device)->graph_begin = graph_begin;       \
        (device)->graph_end = graph_end;           \
        (device)->graph_launch = graph_launch;     \
        (device)->graph_destroy = graph_destroy;   \
    } while (0)

/* The common first members of every backend's stream, event and graph, by which the calls below
 * find the device. */
struct device_stream {
    struct device *device;
};
struct device_event {
    struct device *device;
};
struct device_graph {
    struct device *device;
};

/* Open backend 'name': "cpu" is built in, others are device_NAME.so in the package's library
 * directory (or $MEGATRON_LIBRARY_DIR). Returns NULL with a sentence that names the missing
 * library, driver or device. Caller must device_close. */
struct device *device_open(const char *name, const struct device_options *options,
                           struct error *err);

/* The symbol that a backend's shared object exports: "device_backend_open". */
typedef struct device *device_backend_open_function(const struct device_options *options,
                                                    struct error *err);

/* Plans, streams, events and memory of the device must have been destroyed. NULL is allowed, as
 * below. */
static inline void device_close(struct device *device)
{
    if (device)
        device->close(device);
}

/* The total memory of the device, and how much of it this process could still allocate. */
static inline int device_memory(struct device *device, struct device_memory *memory,
                                struct error *err)
{
    return device->memory(device, memory, err);
}

/* Look for problems that make a working device slow or unreliable: one line each in 'text', empty
 * if there are none. Returns -1 if the device should not be used at all. */
static inline int device_health(struct device *device, char *text, size_t size, struct error *err)
{
    text[0] = '\0';
    return device->health ? device->health(device, text, size, err) : 0;
}

/* Wait for plans that are still being made, after which 'advice' is complete. The first operation
 * does this, too. */
static inline void device_settle(struct device *device)
{
    if (device->settle)
        device->settle(device);
}

/* Record a failure in the device, as if an operation had failed; the first one is kept. For comm.
 * Callable from any thread. */
static inline void device_fail(struct device *device, const struct error *failure)
{
    device->fail(device, failure);
}

/* Can plans use this type for weights and activations? fp8: for the factors of matrix products. */
static inline int device_supports(struct device *device, enum device_type type)
{
    return device->supports(device, type);
}

/* Can fp8 factors of products have blockwise scales? */
static inline int device_supports_blocks(struct device *device)
{
    return device->supports_blocks(device);
}

/* Device memory, not initialized; one call per arena. */
static inline void *device_allocate(struct device *device, size_t bytes, struct error *err)
{
    return device->allocate(device, bytes, err);
}

static inline void device_release(struct device *device, void *memory)
{
    if (memory)
        device->release(device, memory);
}

/* Pinned host memory: copies can read and write it while the host continues. */
static inline void *device_host_allocate(struct device *device, size_t bytes, struct error *err)
{
    return device->host_allocate(device, bytes, err);
}

static inline void device_host_release(struct device *device, void *memory)
{
    if (memory)
        device->host_release(device, memory);
}

/* A queue of work in order; streams run concurrently unless events order them. Never NULL: if it
 * cannot be created, the device has failed. */
static inline struct device_stream *device_stream_create(struct device *device, int high_priority)
{
    return device->stream_create(device, high_priority);
}

static inline void device_stream_destroy(struct device_stream *stream)
{
    if (stream)
        stream->device->stream_destroy(stream);
}

/* Wait until all work of the stream is done. Returns -1 after 'seconds', or with the first error
 * that any earlier call left in the device. */
static inline int device_stream_wait(struct device_stream *stream, double seconds,
                                     struct error *err)
{
    return stream->device->stream_wait(stream, seconds, err);
}

/* The backend's own handle (cudaStream_t), for comm; NULL on a CPU. */
static inline void *device_stream_native(struct device_stream *stream)
{
    return stream->device->stream_native(stream);
}

/* Call a host function in stream order, with its own copy of 'size' (at most DEVICE_OPERANDS)
 * bytes, repeatedly until it returns 1; other streams proceed meanwhile. 'waits' tells it whether a
 * caller waits, or only polls. It must not call the device. On a CPU, communication uses this to
 * get into a stream: with 'later' it may be left unfinished until a caller waits for it or more
 * work follows; without, it is completed immediately, unless the stream already has such work. */
static inline void device_stream_poll(struct device_stream *stream,
                                      int (*poll)(void *operands, int waits), const void *operands,
                                      size_t size, int later)
{
    stream->device->stream_poll(stream, poll, operands, size, later);
}

/* A mark in a stream; 'timing' for event_seconds. Never NULL, as streams. */
static inline struct device_event *device_event_create(struct device *device, int timing)
{
    return device->event_create(device, timing);
}

static inline void device_event_destroy(struct device_event *event)
{
    if (event)
        event->device->event_destroy(event);
}

/* Mark the end of the work enqueued so far. Recording again moves the mark. */
static inline void device_event_record(struct device_event *event, struct device_stream *stream)
{
    event->device->event_record(event, stream);
}

/* Make later work of 'stream' wait for the mark as it was last recorded (an event that was never
 * recorded does not block). */
static inline void device_event_follow(struct device_stream *stream, struct device_event *event)
{
    event->device->event_follow(stream, event);
}

/* Make the host wait for the mark, like device_stream_wait. */
static inline int device_event_wait(struct device_event *event, double seconds, struct error *err)
{
    return event->device->event_wait(event, seconds, err);
}

/* Has the mark been passed? Never waits. */
static inline int device_event_done(struct device_event *event)
{
    return event->device->event_done(event);
}

/* Seconds between two marks that have passed, both created with 'timing'. */
static inline double device_event_seconds(struct device_event *from, struct device_event *to)
{
    return from->device->event_seconds(from, to);
}

/* Copy in stream order; host memory is from device_host_allocate. */
static inline void device_copy(struct device_stream *stream, void *to, const void *from,
                               size_t bytes, enum device_copy direction)
{
    stream->device->copy(stream, to, from, bytes, direction);
}

/* Between begin and end, work submitted to the stream is captured instead of run, and launching the
 * graph runs it. Only if device->can_capture, and only work without events and communication. Plans
 * and operands must outlive the graph, which the caller destroys. A failed capture is not a failure
 * of the device: end then returns NULL. */
static inline int device_graph_begin(struct device_stream *stream, struct error *err)
{
    return stream->device->graph_begin(stream, err);
}

static inline struct device_graph *device_graph_end(struct device_stream *stream, struct error *err)
{
    return stream->device->graph_end(stream, err);
}

static inline void device_graph_launch(struct device_graph *graph, struct device_stream *stream)
{
    graph->device->graph_launch(graph, stream);
}

static inline void device_graph_destroy(struct device_graph *graph)
{
    if (graph)
        graph->device->graph_destroy(graph);
}

/* Create a plan for 'operation'. NULL with a sentence if the device does not support that shape or
 * type. Caller must plan_destroy, before the device is closed. */
static inline struct device_plan *plan_create(struct device *device,
                                              const struct operation *operation, struct error *err)
{
    return device->plan_create(device, operation, err);
}

static inline void plan_destroy(struct device_plan *plan)
{
    if (plan)
        plan->device->plan_destroy(plan);
}

/* run_NAME(plan, stream, operands): one typed call per kind of operation. */
#define OPERATION(kind, name, ...)                                                        \
    static inline void run_##name(struct device_plan *plan, struct device_stream *stream, \
                                  const struct name##_operands *operands)                 \
    {                                                                                     \
        plan->run(plan, stream, operands, sizeof(*operands));                             \
    }
#include "operations.def"

#ifdef __cplusplus
}
#endif

#endif

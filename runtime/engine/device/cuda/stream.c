/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, copies and graphs. */
#include "cuda.h"
#include "cuda_error.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cuda_event {
    struct device_event base;
    cudaEvent_t native;
};

struct cuda_graph {
    struct device_graph base;
    cudaGraphExec_t native;
};

static struct cuda_device *device_of(struct device *device)
{
    return (struct cuda_device *)device;
}

static cudaStream_t native_of(struct device_stream *stream)
{
    return ((struct cuda_stream *)stream)->native;
}

static void check(struct device *device, const char *what, cudaError_t status)
{
    if (status)
        cuda_fail(device_of(device), what, status);
}

static struct device_stream *stream_create(struct device *device, int high_priority)
{
    struct cuda_stream *stream = xcalloc(1, sizeof(*stream));
    int lowest = 0, highest = 0;

    stream->base.device = device;
    cudaSetDevice(device_of(device)->index);
    cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    check(device, "cannot create a stream",
          cudaStreamCreateWithPriority(&stream->native, cudaStreamNonBlocking,
                                       high_priority ? highest : lowest));
    return &stream->base;
}

static void stream_destroy(struct device_stream *base)
{
    struct cuda_stream *stream = (struct cuda_stream *)base;

    cudaStreamDestroy(stream->native);
    cudaFree(stream->workspace);
    free(stream);
}

/* Poll 'query' until it is ready: first spinning, then yielding, then with short sleeps. */
static int wait_for(struct device *device, cudaError_t (*query)(void *what), void *what,
                    double seconds, struct error *err)
{
    double start = clock_now();

    for (;;) {
        cudaError_t status = query(what);
        double waited = clock_now() - start;

        if (status == cudaSuccess)
            return failure_check(&device_of(device)->failure, err);
        if (status != cudaErrorNotReady) {
            cuda_fail(device_of(device), "the GPU stopped", status);
            return failure_check(&device_of(device)->failure, err);
        }
        if (failure_check(&device_of(device)->failure, err))
            return -1;
        if (waited > seconds)
            return error_set(err,
                             "the GPU has not finished within %.0f seconds; check nvidia-smi and "
                             "dmesg (Xid) on this node",
                             seconds);
        if (waited < 0.001)
            sched_yield();
        else
            clock_sleep(50e-6);
    }
}

static cudaError_t query_stream(void *stream)
{
    return cudaStreamQuery((cudaStream_t)stream);
}

static cudaError_t query_event(void *event)
{
    return cudaEventQuery((cudaEvent_t)event);
}

static int stream_wait(struct device_stream *stream, double seconds, struct error *err)
{
    return wait_for(stream->device, query_stream, native_of(stream), seconds, err);
}

static void *stream_native(struct device_stream *stream)
{
    return native_of(stream);
}

struct host_call {
    int (*poll)(void *operands, int waits);
    unsigned char operands[DEVICE_OPERANDS];
};

static void do_host_call(void *argument)
{
    struct host_call *call = argument;

    while (!call->poll(call->operands, 1))
        ;
    free(call);
}

static void stream_poll(struct device_stream *stream, int (*poll)(void *operands, int waits),
                        const void *operands, size_t size, int later)
{
    struct host_call *copy = xmalloc(sizeof(*copy));

    (void)later;
    copy->poll = poll;
    memcpy(copy->operands, operands, size);
    check(stream->device, "cannot call a function of the host",
          cudaLaunchHostFunc(native_of(stream), do_host_call, copy));
}

static struct device_event *event_create(struct device *device, int timing)
{
    struct cuda_event *event = xcalloc(1, sizeof(*event));

    event->base.device = device;
    check(device, "cannot create an event",
          cudaEventCreateWithFlags(&event->native,
                                   timing ? cudaEventDefault : cudaEventDisableTiming));
    return &event->base;
}

static cudaEvent_t event_of(struct device_event *event)
{
    return ((struct cuda_event *)event)->native;
}

static void event_destroy(struct device_event *event)
{
    cudaEventDestroy(event_of(event));
    free(event);
}

static void event_record(struct device_event *event, struct device_stream *stream)
{
    check(stream->device, "cannot record an event",
          cudaEventRecord(event_of(event), native_of(stream)));
}

static void event_follow(struct device_stream *stream, struct device_event *event)
{
    check(stream->device, "cannot wait for an event",
          cudaStreamWaitEvent(native_of(stream), event_of(event), 0));
}

static int event_wait(struct device_event *event, double seconds, struct error *err)
{
    return wait_for(event->device, query_event, event_of(event), seconds, err);
}

static int event_done(struct device_event *event)
{
    return cudaEventQuery(event_of(event)) != cudaErrorNotReady;
}

static double event_seconds(struct device_event *from, struct device_event *to)
{
    float milliseconds = 0;

    check(from->device, "cannot time an event",
          cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)));
    return milliseconds * 1e-3;
}

struct host_copy {
    void *to;
    const void *from;
    size_t bytes;
};

static int copy_on_host(void *operands, int waits)
{
    const struct host_copy *copy = operands;

    (void)waits;
    memcpy(copy->to, copy->from, copy->bytes);
    return 1;
}

static void copy(struct device_stream *stream, void *to, const void *from, size_t bytes,
                 enum device_copy direction)
{
    static const enum cudaMemcpyKind kinds[] = {[COPY_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [COPY_TO_HOST] = cudaMemcpyDeviceToHost,
                                                [COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice};

    /* cudaMemcpyAsync would copy here and now; a thread of CUDA's does it in stream order. */
    if (direction == COPY_ON_HOST) {
        struct host_copy host = {to, from, bytes};

        stream_poll(stream, copy_on_host, &host, sizeof(host), 0);
        return;
    }
    check(stream->device, "cannot copy memory",
          cudaMemcpyAsync(to, from, bytes, kinds[direction], native_of(stream)));
}

static int graph_begin(struct device_stream *stream, struct error *err)
{
    struct cuda_device *device = device_of(stream->device);
    cudaError_t status =
        cudaStreamBeginCapture(native_of(stream), cudaStreamCaptureModeThreadLocal);

    if (status) {
        cudaGetLastError(); /* reported here, not at the next launch */
        return cuda_error(err, status, "cannot record a CUDA graph");
    }
    device->recorder = pthread_self();
    device->recording = RECORDING;
    return 0;
}

static struct device_graph *graph_end(struct device_stream *stream, struct error *err)
{
    struct cuda_graph *graph = xcalloc(1, sizeof(*graph));
    struct cuda_device *device = device_of(stream->device);
    cudaGraph_t recorded = NULL;
    cudaError_t status = cudaStreamEndCapture(native_of(stream), &recorded);

    if (!status && device->recording == RECORDING_SPOILT)
        status = cudaErrorStreamCaptureInvalidated;
    device->recording = RECORDING_NONE;
    if (!status)
        status = cudaGraphInstantiate(&graph->native, recorded, 0);
    /* Allocate its memory now: a failure does no harm here. */
    if (!status)
        status = cudaGraphUpload(graph->native, native_of(stream));
    if (recorded)
        cudaGraphDestroy(recorded);
    if (!status) {
        graph->base.device = stream->device;
        return &graph->base;
    }
    if (graph->native)
        cudaGraphExecDestroy(graph->native);
    free(graph);
    cudaGetLastError(); /* reported here, not at the next launch */
    cuda_error(err, status, "cannot record a CUDA graph");
    return NULL;
}

static void graph_launch(struct device_graph *graph, struct device_stream *stream)
{
    check(stream->device, "cannot launch a CUDA graph",
          cudaGraphLaunch(((struct cuda_graph *)graph)->native, native_of(stream)));
}

static void graph_destroy(struct device_graph *graph)
{
    cudaGraphExecDestroy(((struct cuda_graph *)graph)->native);
    free(graph);
}

void cuda_stream_calls(struct device *device)
{
    DEVICE_SET_STREAM_CALLS(device);
}

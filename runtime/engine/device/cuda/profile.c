/* SPDX-License-Identifier: Apache-2.0 */
/* The time of each operation: an event before and after each run, read when profiling ends. For
 * Nsight Systems each is an NVTX range, and `nsys profile -c cudaProfilerApi` records only profiled
 * steps. */
#include "cuda.h"
#include "cuda_error.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

struct mark {
    const struct operation *operation; /* owned by the plan, which outlives the profile */
    cudaEvent_t from, to;
};

struct cuda_profile {
    struct mark *marks;
    size_t count, room;
    void (*each)(void *context, const struct operation *operation, double begin, double seconds);
    void *context;
    cudaEvent_t start;
};

static struct mark *add_mark(struct cuda_profile *profile)
{
    struct mark *mark;

    if (profile->count == profile->room) {
        size_t room = profile->room ? 2 * profile->room : 1024;
        struct mark *more = realloc(profile->marks, room * sizeof(*more));

        if (!more)
            return NULL;
        profile->marks = more;
        profile->room = room;
    }
    mark = &profile->marks[profile->count];
    if (cudaEventCreate(&mark->from) || cudaEventCreate(&mark->to))
        return NULL;
    profile->count++;
    return mark;
}

void cuda_profile_begin(struct cuda_device *device, cudaStream_t stream,
                        const struct operation *operation)
{
    struct mark *mark = add_mark(device->profile);

    if (!mark) {
        cuda_fail_text(device, "out of host memory while profiling; profile fewer steps");
        return;
    }
    mark->operation = operation;
    nvtxRangePushA(operation_name(operation->kind));
    cudaEventRecord(mark->from, stream);
}

void cuda_profile_end(struct cuda_device *device, cudaStream_t stream)
{
    if (!device->profile->count)
        return;
    cudaEventRecord(device->profile->marks[device->profile->count - 1].to, stream);
    nvtxRangePop();
}

static int profile_start(struct device *base,
                         void (*each)(void *context, const struct operation *operation,
                                      double begin, double seconds),
                         void *context, struct error *err)
{
    struct cuda_device *device = (struct cuda_device *)base;

    device->profile = calloc(1, sizeof(*device->profile));
    if (!device->profile)
        return error_set(err, "out of memory");
    device->profile->each = each;
    device->profile->context = context;
    if (cudaEventCreate(&device->profile->start) || cudaEventRecord(device->profile->start, 0))
        return cuda_error(err, cudaGetLastError(), "cannot start profiling");
    cudaProfilerStart();
    return 0;
}

static int profile_stop(struct device *base, struct error *err)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct cuda_profile *profile = device->profile;
    cudaError_t status = cudaDeviceSynchronize();

    device->profile = NULL;
    if (!profile)
        return error_bug(err, "profiling was not started");
    cudaProfilerStop();
    for (size_t i = 0; i < profile->count; i++) {
        struct mark *mark = &profile->marks[i];
        float milliseconds = 0, begin = 0;

        if (!status)
            status = cudaEventElapsedTime(&begin, profile->start, mark->from);
        if (!status)
            status = cudaEventElapsedTime(&milliseconds, mark->from, mark->to);
        profile->each(profile->context, mark->operation, begin * 1e-3, milliseconds * 1e-3);
        cudaEventDestroy(mark->from);
        cudaEventDestroy(mark->to);
    }
    cudaEventDestroy(profile->start);
    free(profile->marks);
    free(profile);
    return status ? cuda_error(err, status, "cannot finish profiling") : 0;
}

void cuda_profile_calls(struct device *device)
{
    device->profile_start = profile_start;
    device->profile_stop = profile_stop;
}

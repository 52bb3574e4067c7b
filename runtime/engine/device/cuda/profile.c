/* SPDX-License-Identifier: Apache-2.0 */
/* The time of each operation: an event before and after each run, read when profiling ends. For
 * Nsight Systems each is an NVTX range, and `nsys profile -c cudaProfilerApi` records only profiled
 * steps. */
#include "cuda.h"
#include "cuda_error.h"
#include "base/core/list.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

struct mark {
    const struct operation *operation; /* owned by the plan, which outlives the profile */
    cudaEvent_t from, to;
};

struct cuda_profile {
    LIST(struct mark) marks;
    void (*each)(void *context, const struct operation *operation, double begin, double seconds);
    void *context;
    cudaEvent_t start;
};

void cuda_profile_begin(struct cuda_device *device, cudaStream_t stream,
                        const struct operation *operation)
{
    struct mark *mark = list_add(&device->profile->marks);
    cudaError_t status;

    *mark = (struct mark){.operation = operation};
    status = cudaEventCreate(&mark->from);
    if (!status)
        status = cudaEventCreate(&mark->to);
    if (status)
        cuda_fail(device, "cannot time an operation", status);
    nvtxRangePushA(operation_name(operation->kind));
    cudaEventRecord(mark->from, stream);
}

void cuda_profile_end(struct cuda_device *device, cudaStream_t stream)
{
    const struct mark *last = &device->profile->marks.items[device->profile->marks.count - 1];

    cudaEventRecord(last->to, stream);
    nvtxRangePop();
}

static int profile_start(struct device *base,
                         void (*each)(void *context, const struct operation *operation,
                                      double begin, double seconds),
                         void *context, struct error *err)
{
    struct cuda_device *device = (struct cuda_device *)base;

    device->profile = xcalloc(1, sizeof(*device->profile));
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
    cudaProfilerStop();
    for (size_t i = 0; i < profile->marks.count; i++) {
        struct mark *mark = &profile->marks.items[i];
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
    list_free(&profile->marks);
    free(profile);
    return status ? cuda_error(err, status, "cannot finish profiling") : 0;
}

void cuda_profile_calls(struct device *device)
{
    device->profile_start = profile_start;
    device->profile_stop = profile_stop;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cpu.h"
#include "lib/clock.h"
#include "engine/device/cpu_open.h"
#include "engine/device/fp8.h"
#include "gemm.h"
#include "base/core/gib.h"
#include "base/core/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void cpu_close(struct device *base)
{
    struct cpu_device *device = (struct cpu_device *)base;

    threads_destroy(device->threads);
    free(device->product_space);
    free(device->shared_space);
    free(device);
}

static void cpu_fail(struct device *device, const struct error *failure)
{
    failure_record(&((struct cpu_device *)device)->failure, failure);
}

static int cpu_memory(struct device *device, struct device_memory *memory, struct error *err)
{
    (void)device;
    return cpu_memory_under("", memory, err);
}

int cpu_refuse_type(struct error *err)
{
    error_set_code(err, ERROR_USAGE, "the CPU device supports fp32 only");
    return error_append(err, "; drop --bf16 or --fp16");
}

static int cpu_supports(struct device *device, enum device_type type)
{
    (void)device;
    return type == TYPE_FP32 || type_is_fp8(type);
}

static int cpu_supports_blocks(struct device *device)
{
    (void)device;
    return 1;
}

/* Arenas use huge pages if available: the first touch of small pages takes longer than filling them
 * from a file. */
static void *cpu_allocate(struct device *device, size_t bytes, struct error *err)
{
    const size_t page = (size_t)2 << 20;
    size_t alignment = bytes >= 2 * page ? page : DEVICE_ALIGNMENT;
    void *memory = NULL;

    if (posix_memalign(&memory, alignment, bytes ? bytes : DEVICE_ALIGNMENT) != 0) {
        error_set(err, "cannot allocate another %.2f GiB: out of memory", gib((double)bytes));
        if (device)
            device->ran_out = 1;
        return NULL;
    }
    if (alignment == page)
        madvise(memory, bytes / page * page, MADV_HUGEPAGE);
    return memory;
}

static void cpu_release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

int cpu_workspace(struct cpu_plan *plan, size_t bytes, struct error *err)
{
    plan->workspace = cpu_allocate(plan->base.device, bytes, err);
    if (!plan->workspace)
        return -1;
    memset(plan->workspace, 0, bytes);
    return 0;
}

int cpu_shared_workspace(struct cpu_plan *plan, size_t bytes, struct error *err)
{
    struct cpu_device *device = (struct cpu_device *)plan->base.device;
    void *space;

    plan->shares = 1;
    if (bytes <= device->shared_bytes)
        return 0;
    space = cpu_allocate(plan->base.device, bytes, err);
    if (!space)
        return -1;
    cpu_release(plan->base.device, device->shared_space);
    device->shared_space = space;
    device->shared_bytes = bytes;
    return 0;
}

static void work_parts(struct cpu_plan *plan, const void *operands)
{
    cpu_run_parts(plan, operands, plan->parts, plan->part);
}

void cpu_plan_parts(struct cpu_plan *plan, int64_t parts, void (*part)(void *job, int64_t i))
{
    plan->work = work_parts;
    plan->parts = parts;
    plan->part = part;
}

static void plan_run(struct device_plan *base, struct device_stream *stream, const void *operands,
                     size_t size)
{
    cpu_submit(stream, (struct cpu_plan *)base, operands, size);
}

static int (*const planners[OPERATION_COUNT])(struct cpu_plan *plan, struct error *err) = {
#define OPERATION(kind, name, shape, category, label, cpu, ...) [OPERATION_##kind] = cpu_plan_##cpu,
#include "engine/device/operations.def"
};

static void cpu_plan_destroy(struct device_plan *base)
{
    struct cpu_plan *plan = (struct cpu_plan *)base;

    if (!plan->shares)
        free(plan->workspace);
    free(plan);
}

static struct device_plan *cpu_plan_create(struct device *base, const struct operation *operation,
                                           struct error *err)
{
    struct cpu_device *device = (struct cpu_device *)base;
    struct cpu_plan *plan = xcalloc(1, sizeof(*plan));

    plan->base.device = base;
    plan->base.kind = operation->kind;
    plan->base.run = plan_run;
    plan->operation = *operation;
    plan->threads = device->threads;
    plan->product_space = device->product_space;
    if (planners[operation->kind](plan, err) < 0) {
        cpu_plan_destroy(&plan->base);
        return NULL;
    }
    return &plan->base;
}

static int cpu_profile_start(struct device *base,
                             void (*each)(void *context, const struct operation *operation,
                                          double begin, double seconds),
                             void *context, struct error *err)
{
    struct cpu_device *device = (struct cpu_device *)base;

    (void)err;
    device->timed = each;
    device->timed_context = context;
    device->timed_from = clock_now();
    return 0;
}

static int cpu_profile_stop(struct device *base, struct error *err)
{
    struct cpu_device *device = (struct cpu_device *)base;

    cpu_finish(device);
    device->timed = NULL;
    return failure_check(&device->failure, err);
}

void cpu_plan_work(struct cpu_plan *plan, const void *operands)
{
    struct cpu_device *device = (struct cpu_device *)plan->base.device;
    double start;

    if (plan->shares)
        plan->workspace = device->shared_space;
    if (!device->timed) {
        plan->work(plan, operands);
        return;
    }
    start = clock_now();
    plan->work(plan, operands);
    device->timed(device->timed_context, &plan->operation, start - device->timed_from,
                  clock_now() - start);
}

static void describe_processor(char *model, size_t size, int threads)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256], name[80] = "CPU";

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "model name : %79[^\n]", name) == 1)
            break;
    if (file)
        fclose(file);
    snprintf(model, size, "%s, %d thread%s", name, threads, threads == 1 ? "" : "s");
}

struct device *cpu_device_open(const struct device_options *options, struct error *err)
{
    struct cpu_device *device = xcalloc(1, sizeof(*device));

    device->threads = threads_create(options->threads, err);
    if (device->threads)
        device->product_space =
            cpu_allocate(NULL, cpu_product_bytes() * (size_t)threads_count(device->threads), err);
    if (!device->product_space) {
        threads_destroy(device->threads);
        free(device);
        return NULL;
    }
    device->failure.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    device->random_order = options->random_order;
    device->order_seed = options->order_seed;
    gemm_prepare();
    device->base = (struct device){
        .abi = DEVICE_ABI,
        .name = "cpu",
        .asynchronous = options->random_order,
        .close = cpu_close,
        .fail = cpu_fail,
        .memory = cpu_memory,
        .supports = cpu_supports,
        .supports_blocks = cpu_supports_blocks,
        .allocate = cpu_allocate,
        .release = cpu_release,
        .host_allocate = cpu_allocate,
        .host_release = cpu_release,
        .plan_create = cpu_plan_create,
        .plan_destroy = cpu_plan_destroy,
        .profile_start = cpu_profile_start,
        .profile_stop = cpu_profile_stop,
    };
    cpu_stream_calls(&device->base);
    describe_processor(device->base.model, sizeof(device->base.model),
                       threads_count(device->threads));
    return &device->base;
}

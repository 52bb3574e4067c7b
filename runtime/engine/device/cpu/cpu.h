/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU device: OpenBLAS and plain C, fp32, with products of fp8 factors. The reference for all
 * other backends. */
#ifndef MEGATRON_CPU_H
#define MEGATRON_CPU_H

#include "engine/device/device.h"
#include "engine/device/failure.h"
#include "base/core/threads.h"

#include <string.h>

/* Functions whose loops are compiled for wider vectors, too; the loader takes the version that fits
 * the CPU. Sanitizers cannot be used with such functions. */
#if defined(__x86_64__) && defined(__gnu_linux__) && __GNUC__ >= 12 && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

struct cpu_stream;

struct cpu_device {
    struct device base;
    struct threads *threads;
    char *product_space; /* cpu_product_bytes for each thread; operations run one at a time */
    void *shared_space;  /* the workspace of all plans that share it */
    size_t shared_bytes;
    int random_order;    /* work stays in the streams until a caller waits for it */
    uint64_t order_seed; /* state of the random choice among streams */
    struct cpu_stream *streams;
    struct cpu_stream *favoured; /* the stream that runs, for 'burst' more tasks */
    int64_t burst;
    struct failure failure;
    void (*timed)(void *context, const struct operation *operation, double begin, double seconds);
    double timed_from;
    void *timed_context; /* set while profiling */
};

/* 'work' performs the operation immediately. */
struct cpu_plan {
    struct device_plan base;
    struct operation operation;
    void (*work)(struct cpu_plan *plan, const void *operands);
    void (*part)(void *job, int64_t i); /* see cpu_plan_parts */
    int64_t parts;
    struct threads *threads;
    char *product_space; /* the device's */
    void *workspace;
    int shares; /* it is the device's, which is set when the plan works */
};

/* Do the plan's work now; it is timed while profiling. */
void cpu_plan_work(struct cpu_plan *plan, const void *operands);

/* Run all queued work that can proceed. */
void cpu_finish(struct cpu_device *device);

/* Do the plan's work with a copy of the operands, now or in stream order. */
void cpu_submit(struct device_stream *stream, struct cpu_plan *plan, const void *operands,
                size_t size);

/* stream.c: the stream, event and copy calls of the device. */
void cpu_stream_calls(struct device *device);

/* Choose plan->work for the operation and allocate its workspace. One row per kind in cpu.c. */
int cpu_plan_linear(struct cpu_plan *plan, struct error *err);
int cpu_plan_residual_norm(struct cpu_plan *plan, struct error *err);
int cpu_plan_attention(struct cpu_plan *plan, struct error *err);
int cpu_plan_elementwise(struct cpu_plan *plan, struct error *err);
int cpu_plan_embedding(struct cpu_plan *plan, struct error *err);
int cpu_plan_cross_entropy(struct cpu_plan *plan, struct error *err);
int cpu_plan_head_norm(struct cpu_plan *plan, struct error *err);
int cpu_plan_optimizer(struct cpu_plan *plan, struct error *err);
int cpu_plan_quantize(struct cpu_plan *plan, struct error *err);
int cpu_plan_squares(struct cpu_plan *plan, struct error *err);

/* What the threads of an operation share. */
struct cpu_job {
    struct cpu_plan *plan;
    const void *operands;
};

/* Call 'part' for 0 .. parts - 1, in any order, with a struct cpu_job. */
static inline void cpu_run_parts(struct cpu_plan *plan, const void *operands, int64_t parts,
                                 void (*part)(void *job, int64_t i))
{
    struct cpu_job job = {plan, operands};

    threads_run(plan->threads, parts, part, &job);
}

/* Let the plan's work be to run these parts. */
void cpu_plan_parts(struct cpu_plan *plan, int64_t parts, void (*part)(void *job, int64_t i));

/* Elements that a thread processes at a time, and how many blocks of them there are. */
enum { CPU_BLOCK = 16384 };

static inline int64_t cpu_blocks(int64_t count)
{
    return (count + CPU_BLOCK - 1) / CPU_BLOCK;
}

/* The error of a plan whose operands are not all fp32. Returns -1. */
int cpu_refuse_type(struct error *err);

/* Can main gradients have this type? */
static inline int cpu_is_gradient_type(enum device_type type)
{
    return type == TYPE_FP32 || type == TYPE_BF16;
}

/* Set plan->workspace to 'bytes' of zeros, freed with the plan. */
int cpu_workspace(struct cpu_plan *plan, size_t bytes, struct error *err);

/* Let the plan use workspace that all such plans share. It is not zeroed, its contents are lost
 * between operations, and plan->workspace is set only while the plan works. */
int cpu_shared_workspace(struct cpu_plan *plan, size_t bytes, struct error *err);

/* |x| as bits. Those of numbers that are not negative are ordered as the numbers are, NaN last. */
static inline uint32_t cpu_magnitude(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7fffffffu;
}

/* Cast a matrix to fp8 as OPERATION_QUANTIZE does; the workspace of the plan begins with the bytes
 * for it. */
size_t cpu_cast_workspace(const struct quantize_shape *shape);
void cpu_cast(struct cpu_plan *plan, const struct quantize_shape *shape, const float *matrix,
              const struct quantize_operands *operands);

/* Bytes of workspace that a product needs in each thread. */
size_t cpu_product_bytes(void);

/* Parts of about equal size: part i of 'parts' of 'total' starts here, where part i-1 ends. */
static inline int64_t cpu_part(int64_t total, int64_t parts, int64_t i)
{
    return total / parts * i + (i < total % parts ? i : total % parts);
}

/* out (cols) = or += column sums of x (rows, cols), in an order that depends only on the shape. */
void cpu_column_sums(struct threads *threads, const float *x, int64_t rows, int64_t cols,
                     float *out, int accumulate);

/* The memory that the kernel reports as available without swapping, or less if a cgroup (v1 or v2)
 * limits it. 'root' is prepended to /proc and /sys for tests. */
int cpu_memory_under(const char *root, struct device_memory *memory, struct error *err);

#endif

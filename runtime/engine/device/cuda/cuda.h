/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device: cuBLASLt, cuDNN and our own kernels, behind device.h. */
#ifndef MEGATRON_CUDA_H
#define MEGATRON_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <pthread.h>

#include "engine/device/device.h"
#include "engine/device/failure.h"
#include "flash.h"
#include "gemm.h"
#include "kernels.h"
#include "tuning.h"

struct cuda_profile;

enum recording { RECORDING_NONE, RECORDING, RECORDING_SPOILT };

struct cuda_device {
    struct device base;
    int index;
    int processors; /* multiprocessors */
    int capability; /* major number */
    int deterministic, unfused_attention;
    int local_rank;
    cudnnHandle_t cudnn;
    struct gemm_context gemm;
    size_t workspace;        /* the maximum over all plans on a stream */
    struct cuda_plan *later; /* plans of attention that threads are making */
    pthread_mutex_t making;  /* held by the thread that is making a plan */
    struct failure failure;
    struct cuda_profile *profile; /* set while profiling */
    enum recording recording;
    pthread_t recorder; /* the stream that is being captured */
};

struct cuda_stream {
    struct device_stream base;
    cudaStream_t native;
    void *workspace; /* created when the first plan that needs it runs */
    size_t bytes;
    struct cuda_stream *next;
};

struct cuda_plan {
    struct device_plan base;
    struct operation operation;
    void (*work)(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                 const void *operands);
    void (*destroy)(struct cuda_plan *plan);
    size_t workspace;        /* bytes needed on the stream */
    void *parts;             /* depends on the kind of plan */
    struct cuda_plan *later; /* the next one that a thread is making */
};

/* Record the first failure of the device. 'what' names the operation. */
void cuda_fail(struct cuda_device *device, const char *what, cudaError_t status);
void cuda_fail_text(struct cuda_device *device, const char *text);

/* stream.c: the stream, event, copy and graph calls of the device. */
void cuda_stream_calls(struct device *device);

/* profile.c: the time of each operation. */
void cuda_profile_calls(struct device *device);
void cuda_profile_begin(struct cuda_device *device, cudaStream_t stream,
                        const struct operation *operation);
void cuda_profile_end(struct cuda_device *device, cudaStream_t stream);

/* Choose plan->work for the operation. */
int cuda_plan_linear(struct cuda_plan *plan, struct error *err);
int cuda_plan_linear_fp8(struct cuda_plan *plan, struct error *err);
int cuda_linear_is_fp8(const struct operation *operation);

/* linear.c: record that the product of a linear layer failed. */
void cuda_fail_product(struct cuda_plan *plan, cublasStatus_t status);
int cuda_plan_attention(struct cuda_plan *plan, struct error *err);
int cuda_plan_kernel(struct cuda_plan *plan, struct error *err);

/* attention.c: wait for the plans of attention that threads are making, and complete them. For the
 * thread that creates and runs plans; a failure is recorded in the device. */
void cuda_attention_settle(struct cuda_device *device);

/* flash_choice.c: the fastest of cuDNN's and our own kernels for an attention; NULL if there is
 * none. */
struct flash *cuda_flash(struct cuda_device *device, const struct flash_shape *shape, int backward,
                         struct error *err);

/* The number of the one that is known to be the fastest; -1: none is known. */
int cuda_flash_known(struct cuda_device *device, const struct flash_shape *shape, int backward);

static inline struct cuda_device *cuda_device_of(struct cuda_plan *plan)
{
    return (struct cuda_device *)plan->base.device;
}

static inline size_t cuda_align(size_t bytes)
{
    return (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
}

#endif

/* Matrix products by cuBLASLt: a plan per shape, types and epilogue, with the fastest algorithm
 * that a search around the library's candidates finds, once; it is remembered. Column-major, as the
 * library thinks: D (m x n) = op(A) (m x k) * op(B) (k x n) + beta * D. */
#ifndef MEGATRON_GEMM_H
#define MEGATRON_GEMM_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "tuning.h"

enum { GEMM_WORKSPACE = 32 << 20, GEMM_ALIGNMENT = 16 }; /* bytes */

enum gemm_epilogue {
    GEMM_PLAIN,
    GEMM_BIAS,      /* + bias (m) */
    GEMM_GELU,      /* gelu */
    GEMM_GELU_BIAS, /* gelu(+ bias) */
    GEMM_GELU_AUX,  /* 'aux' = the value before gelu */
    GEMM_GELU_AUX_BIAS,
    GEMM_DGELU,       /* * gelu'(aux) */
    GEMM_DGELU_BGRAD, /* and bias (m) = its sums over n */
    GEMM_BGRADB,      /* bias (n) = sums of B over k */
};

struct gemm_shape {
    int64_t m, n, k;
    int transpose_a, transpose_b;
    int64_t lda, ldb, ldd;
    enum device_type type;      /* of A, B, aux */
    enum device_type out;       /* of D */
    enum device_type bias_type; /* of bias */
    enum gemm_epilogue epilogue;
    int batch; /* products side by side, 0 and 1: one */
    int64_t stride_a, stride_b, stride_d;
    /* Bytes that the addresses of A, B and D are multiples of: powers of two; 0: GEMM_ALIGNMENT,
     * and more is not relied on. */
    uint32_t alignment_a, alignment_b, alignment_d;
};

struct gemm_operands {
    const void *a, *b;
    void *d;
    void *bias, *aux;
};

/* What all plans of a device share. */
struct gemm_context {
    cublasLtHandle_t handle;
    struct tuning *tuning;
    cudaStream_t stream; /* for timing */
    void *workspace;     /* GEMM_WORKSPACE bytes, for timing */
    int candidates;      /* asked for, to search around; 1: the library's first guess */
    int broken;          /* an algorithm that was tried stopped the GPU: no more will run */
};

struct gemm;

/* Make a plan. With 'scratch' (operands of the right sizes whose content may be lost) candidates
 * not yet known are timed, else the library's first guess is taken. NULL with a sentence where the
 * library has no kernel, or none that runs, or where the GPU breaks down over one. */
struct gemm *gemm_create(struct gemm_context *context, const struct gemm_shape *shape,
                         const struct gemm_operands *scratch, struct error *err);
void gemm_destroy(struct gemm *gemm);

/* Is its algorithm among the tuning results, from before or since it was made? Else it is the
 * library's first guess, and stays what it is in later runs by gemm_remember. */
int gemm_is_remembered(const struct gemm *gemm);
int gemm_remember(struct gemm *gemm, struct error *err);

/* Was less tried for it than can be? */
int gemm_is_provisional(const struct gemm *gemm);

/* 'accumulate': D += instead of D =. 'workspace' has GEMM_WORKSPACE bytes. */
cublasStatus_t gemm_run(struct gemm *gemm, cudaStream_t stream,
                        const struct gemm_operands *operands, int accumulate, void *workspace);

/* Time 'call' on the context's stream: the mean of 'repeats', in seconds; negative on failure. */
double gemm_time(struct gemm_context *context, int (*call)(void *argument), void *argument,
                 int repeats);

/* The same at the clocks the GPU settles at when it does nothing else. */
double gemm_time_sustained(struct gemm_context *context, int (*call)(void *argument),
                           void *argument);

/* One of several ways to do a thing. */
struct contestant {
    int (*call)(void *argument); /* starts it on the context's stream; negative: it cannot */
    void *argument;
    double handicap; /* what it takes counts so many times; 1: as it is */
    double once;     /* about what it takes, in seconds; 0: not known */
    double seconds;  /* what it takes, with its handicap; negative where it fails */
};

/* Time them and put them in order, the fastest first, those that fail last. All run in short turns,
 * there and back, so that they see the same clocks. If the best are close, each of these runs for
 * long: in training the GPU is at its power limit, and there the way that takes the least energy is
 * the fastest, which shows only when it has run alone for a while: clocks follow the power of the
 * last milliseconds. */
void gemm_contest(struct gemm_context *context, struct contestant *contestants, int count);

#endif

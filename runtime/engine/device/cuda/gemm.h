/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt: a plan per shape, types and epilogue, with the fastest algorithm
 * found by a one-time search around the library's candidates; it is remembered. Column-major, as in
 * the library: D (m x n) = op(A) (m x k) * op(B) (k x n) + beta * D. */
#ifndef MEGATRON_GEMM_H
#define MEGATRON_GEMM_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/device/device.h"
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
    int batch; /* batch size; 0 and 1: one */
    int64_t stride_a, stride_b, stride_d;
    /* Alignment in bytes of A, B and D: powers of two; 0: GEMM_ALIGNMENT. A larger alignment is not
     * used. */
    uint32_t alignment_a, alignment_b, alignment_d;
    /* fp8 factors: the types of A and B, which are then transposed and not; 0 (fp32): 'type'. */
    enum device_type fp8_a, fp8_b;
    int fast;                        /* fp8: accumulate with fewer bits */
    enum scaled_part part_a, part_b; /* fp8: what shares a scale; not both squares */
};

struct gemm_operands {
    const void *a, *b;
    void *d;
    void *bias, *aux;
    const float *scale_a, *scale_b; /* fp8: factors of A and B in device memory, as in scaling.h */
};

enum { GEMM_LOADED = 512 }; /* kernels to remember */

/* Shared by all plans of a device. */
struct gemm_context {
    cublasLtHandle_t handle;
    struct tuning *tuning; /* the cache, and what was installed for this GPU */
    cudaStream_t stream;   /* for timing */
    void *workspace;       /* GEMM_WORKSPACE bytes, for timing */
    int candidates; /* number to request and to search around; 1: the library's first guess */
    int broken;     /* an algorithm that was tried broke the GPU: nothing will run anymore */
    double rested;  /* when the next measurement may begin (clock_now) */
    /* Hashes of kernels that have run, and so need not be loaded any more. */
    uint64_t loaded[GEMM_LOADED];
    int loaded_count;
};

/* One of the algorithms to decide between. */
enum { GEMM_FINALISTS = 4 };
struct gemm_finalist {
    cublasLtMatmulAlgo_t algorithm;
    double seconds;  /* of the brief measurement */
    double handicap; /* see struct timing_candidate */
};

struct gemm {
    struct gemm_context *context;
    struct gemm_shape shape;
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    struct gemm_finalist finalists[GEMM_FINALISTS]; /* the one that seemed fastest first */
    int finalists_count;                            /* 0: there is nothing to decide */
    bool remembered;  /* the algorithm is among the tuning results; if not, gemm_remember makes
                         later runs use it, too */
    bool provisional; /* possible neighbors were not tried, or nothing was timed */
    /* For messages: an attribute or a call, and what the library answered; NULL: none. */
    const char *failed;
    cublasStatus_t status;
};

/* Create a plan. With 'scratch' (operands of the right sizes that may be overwritten) unknown
 * candidates are timed briefly, and the caller decides between the best; otherwise the library's
 * first guess is used. NULL with a sentence if the library has no kernel, or none that runs, or if
 * one breaks the GPU. */
struct gemm *gemm_create(struct gemm_context *context, const struct gemm_shape *shape,
                         const struct gemm_operands *scratch, struct error *err);
void gemm_destroy(struct gemm *gemm);

/* Let the plan run a finalist. In the end there must be gemm_remember or gemm_forget: until then
 * the tuning file says that it is tried. */
void gemm_use(struct gemm *gemm, int finalist);

/* Decide by the time of the product alone, if there is anything to decide, and remember the
 * algorithm. Returns -1 with a sentence if none runs or one breaks the GPU. */
int gemm_decide(struct gemm *gemm, const struct gemm_operands *scratch, struct error *err);

void gemm_remember(struct gemm *gemm);

/* Nothing was decided about it: later plans search again. */
void gemm_forget(struct gemm *gemm);

/* 'accumulate': D += instead of D =. 'workspace' has GEMM_WORKSPACE bytes. */
cublasStatus_t gemm_run(struct gemm *gemm, cudaStream_t stream,
                        const struct gemm_operands *operands, int accumulate, void *workspace);

/* Time 'call' on the context's stream, after 'untimed' runs: the mean of 'repeats', in seconds;
 * negative on failure. The first run may have to load kernels. A run of GEMM_LONG seconds or more
 * whose kernels are loaded needs no untimed run before it. */
#define GEMM_LONG 0.002
double gemm_time(struct gemm_context *context, int (*call)(void *argument), void *argument,
                 int untimed, int repeats);

/* One of several implementations of the same work. */
struct timing_candidate {
    int (*call)(void *argument); /* starts it on the context's stream; negative: it cannot */
    void *argument;
    double handicap; /* factor by which its time is multiplied for the comparison; 1: none */
    double once;     /* time in seconds, measured briefly before, perhaps only of its product; 0:
                        unknown */
    double seconds;  /* the time, multiplied by its handicap; negative if it failed */
};

/* Time the candidates whose times are unknown briefly, then those close to the best again, and sort
 * all: those that were close and did not fail, the others, failed ones; in each group the fastest
 * first. Returns how many competed to the end: at most TIMING_CLOSE, 0 if all fail, or -1 with a
 * sentence if one broke the GPU. */
enum { TIMING_CLOSE = 6 };
int gemm_rank(struct gemm_context *context, struct timing_candidate *candidates, int count,
              struct error *err);

#endif

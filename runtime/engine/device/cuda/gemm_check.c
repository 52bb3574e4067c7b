/* SPDX-License-Identifier: Apache-2.0 */
/* Check the result of an algorithm that the library did not offer. */
#include "gemm_private.h"

#include <string.h>

#include "lib/clock.h"
#include "compare.h"

/* Relative to the norm. Rounding causes 1e-5, one wrong tile of 128 x 256 causes 1e-2 in all but
 * the largest products. */
static const double TOLERANCE = 1e-3;

enum { MOST_OUTPUTS = 2 };

struct fingerprints {
    struct fingerprint of[MOST_OUTPUTS];
};

static int outputs_of(const struct gemm_shape *s, const struct gemm_operands *o,
                      struct output *outputs)
{
    outputs[0] = (struct output){o->d, s->out, s->m * s->n};
    switch (s->epilogue) {
    case GEMM_GELU_AUX:
    case GEMM_GELU_AUX_BIAS:
        outputs[1] = (struct output){o->aux, s->type, s->m * s->n};
        return 2;
    case GEMM_DGELU_BGRAD:
        outputs[1] = (struct output){o->bias, s->bias_type, s->m};
        return 2;
    default:
        return 1;
    }
}

/* Run 'algorithm' on outputs filled with NaN, to detect elements that it does not write. */
static int take_fingerprints(struct gemm *gemm, const struct gemm_operands *operands,
                             const cublasLtMatmulAlgo_t *algorithm,
                             struct fingerprints *fingerprints)
{
    struct gemm_context *context = gemm->context;
    struct output outputs[MOST_OUTPUTS];
    int count = outputs_of(&gemm->shape, operands, outputs);
    cudaError_t status = cudaSuccess;

    memset(fingerprints, 0, sizeof(*fingerprints));
    for (int i = 0; i < count && !status; i++)
        status =
            cudaMemsetAsync(outputs[i].data, 0xff,
                            (size_t)outputs[i].count * type_size(outputs[i].type), context->stream);
    if (status || gemm_launch(gemm, context->stream, operands, algorithm, 0, context->workspace))
        return -1;
    for (int i = 0; i < count; i++)
        if (fingerprint_take(context, &outputs[i], &fingerprints->of[i]) < 0)
            return -1;
    return 0;
}

static int agree(const struct fingerprints *a, const struct fingerprints *b)
{
    for (int i = 0; i < MOST_OUTPUTS; i++)
        if (!fingerprints_agree(&a->of[i], &b->of[i], TOLERANCE))
            return 0;
    return 1;
}

int gemm_check(struct gemm *gemm, const struct gemm_operands *scratch,
               const cublasLtMatmulAlgo_t *trusted, const cublasLtMatmulAlgo_t *algorithm)
{
    struct fingerprints expected, once, again;
    double began = clock_now(), now;
    int right = take_fingerprints(gemm, scratch, trusted, &expected) == 0 &&
                take_fingerprints(gemm, scratch, algorithm, &once) == 0 &&
                take_fingerprints(gemm, scratch, algorithm, &again) == 0 &&
                agree(&expected, &once) && memcmp(&once, &again, sizeof(once)) == 0;

    cudaGetLastError(); /* an algorithm that fails is not an error of the device */
    now = clock_now();
    gemm->context->rested = now + (now - began);
    return right;
}

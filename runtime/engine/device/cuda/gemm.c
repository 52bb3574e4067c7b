/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm_private.h"
#include "cuda_error.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaDataType_t data_type(enum device_type type)
{
    switch (type) {
    case TYPE_BF16:
        return CUDA_R_16BF;
    case TYPE_FP16:
        return CUDA_R_16F;
    case TYPE_E4M3:
        return CUDA_R_8F_E4M3;
    case TYPE_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        return CUDA_R_32F;
    }
}

static int is_fp8(const struct gemm_shape *s)
{
    return type_size(s->fp8_a) == 1;
}

static cublasLtEpilogue_t epilogue_of(enum gemm_epilogue epilogue)
{
    static const cublasLtEpilogue_t table[] = {
        [GEMM_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
        [GEMM_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [GEMM_GELU] = CUBLASLT_EPILOGUE_GELU,
        [GEMM_GELU_BIAS] = CUBLASLT_EPILOGUE_GELU_BIAS,
        [GEMM_GELU_AUX] = CUBLASLT_EPILOGUE_GELU_AUX,
        [GEMM_GELU_AUX_BIAS] = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        [GEMM_DGELU] = CUBLASLT_EPILOGUE_DGELU,
        [GEMM_DGELU_BGRAD] = CUBLASLT_EPILOGUE_DGELU_BGRAD,
        [GEMM_BGRADB] = CUBLASLT_EPILOGUE_BGRADB,
    };

    return table[epilogue];
}

static int has_bias(enum gemm_epilogue epilogue)
{
    return epilogue == GEMM_BIAS || epilogue == GEMM_GELU_BIAS || epilogue == GEMM_GELU_AUX_BIAS ||
           epilogue == GEMM_DGELU_BGRAD || epilogue == GEMM_BGRADB;
}

static int has_aux(enum gemm_epilogue epilogue)
{
    return epilogue == GEMM_GELU_AUX || epilogue == GEMM_GELU_AUX_BIAS || epilogue == GEMM_DGELU ||
           epilogue == GEMM_DGELU_BGRAD;
}

static int make_layout(cublasLtMatrixLayout_t *layout, enum device_type type, int64_t rows,
                       int64_t cols, int64_t ld, int batch, int64_t stride)
{
    if (cublasLtMatrixLayoutCreate(layout, data_type(type), (uint64_t)rows, (uint64_t)cols, ld))
        return -1;
    if (batch > 1 &&
        (cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                          sizeof(batch)) ||
         cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &stride, sizeof(stride))))
        return -1;
    return 0;
}

static int set(struct gemm *gemm, cublasLtMatmulDescAttributes_t attribute, const char *name,
               const void *value, size_t size)
{
    cublasStatus_t status =
        cublasLtMatmulDescSetAttribute(gemm->description, attribute, value, size);

    if (status)
        gemm->failed = name, gemm->status = status;
    return status ? -1 : 0;
}

#define SET(gemm, attribute, value) set(gemm, attribute, #attribute, &(value), sizeof(value))

static int set_scales(struct gemm *gemm, const float *a, const float *b)
{
    return SET(gemm, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a) ||
                   SET(gemm, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b)
               ? -1
               : 0;
}

/* The scale modes of both factors. Without blocks none is set: an older library has no such
 * attribute. */
static int describe_parts(struct gemm *gemm)
{
#if CUBLAS_VERSION >= 120900
    static const cublasLtMatmulMatrixScale_t modes[] = {
        [SCALED_WHOLE] = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
        [SCALED_VECTORS] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
        [SCALED_SQUARES] = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
    };
    const struct gemm_shape *s = &gemm->shape;

    if (s->part_a == SCALED_WHOLE && s->part_b == SCALED_WHOLE)
        return 0;
    return SET(gemm, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, modes[s->part_a]) ||
                   SET(gemm, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, modes[s->part_b])
               ? -1
               : 0;
#else
    if (gemm->shape.part_a == SCALED_WHOLE && gemm->shape.part_b == SCALED_WHOLE)
        return 0;
    gemm->failed = "scale modes of this version of cuBLASLt";
    gemm->status = CUBLAS_STATUS_NOT_SUPPORTED;
    return -1;
#endif
}

/* Which kernels can be used may depend on whether there are scales, so they are set before the
 * library is asked; every launch sets its own. */
static int describe_fp8(struct gemm *gemm)
{
    int8_t fast = gemm->shape.fast != 0;

    return set_scales(gemm, gemm->context->workspace, gemm->context->workspace) ||
                   SET(gemm, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast) || describe_parts(gemm)
               ? -1
               : 0;
}

static int describe(struct gemm *gemm)
{
    const struct gemm_shape *s = &gemm->shape;
    cublasOperation_t a = s->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = s->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(s->epilogue);
    cudaDataType_t bias = data_type(s->bias_type), aux = data_type(s->type);
    enum device_type type_a = is_fp8(s) ? s->fp8_a : s->type;
    enum device_type type_b = is_fp8(s) ? s->fp8_b : s->type;

    if (cublasLtMatmulDescCreate(&gemm->description, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        SET(gemm, CUBLASLT_MATMUL_DESC_TRANSA, a) || SET(gemm, CUBLASLT_MATMUL_DESC_TRANSB, b) ||
        SET(gemm, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) ||
        (has_bias(s->epilogue) && SET(gemm, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias)) ||
        (has_aux(s->epilogue) && (SET(gemm, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s->ldd) ||
                                  SET(gemm, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, aux))))
        return -1;
    if (is_fp8(s) && describe_fp8(gemm))
        return -1;
    return make_layout(&gemm->a, type_a, s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k,
                       s->lda, s->batch, s->stride_a) ||
                   make_layout(&gemm->b, type_b, s->transpose_b ? s->n : s->k,
                               s->transpose_b ? s->k : s->n, s->ldb, s->batch, s->stride_b) ||
                   make_layout(&gemm->d, s->out, s->m, s->n, s->ldd, s->batch, s->stride_d)
               ? -1
               : 0;
}

/* The library's candidates, best guess first. Split-K sums with atomics are excluded: results must
 * not depend on timing. */
static int candidates(struct gemm *gemm, cublasLtMatmulHeuristicResult_t *results, int wanted)
{
    cublasLtMatmulPreference_t preference = NULL;
    uint64_t workspace = GEMM_WORKSPACE;
    uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    const struct gemm_shape *s = &gemm->shape;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        uint32_t bytes;
    } alignments[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s->alignment_a},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s->alignment_b},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s->alignment_d},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s->alignment_d}};
    int found = 0, failed;

    if (cublasLtMatmulPreferenceCreate(&preference))
        return 0;
    failed =
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof(workspace)) ||
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &schemes, sizeof(schemes));
    for (size_t i = 0; i < sizeof(alignments) / sizeof(*alignments) && !failed; i++)
        failed = cublasLtMatmulPreferenceSetAttribute(
            preference, alignments[i].name, &alignments[i].bytes, sizeof(alignments[i].bytes));
    if (!failed) {
        gemm->failed = "cublasLtMatmulAlgoGetHeuristic";
        gemm->status = cublasLtMatmulAlgoGetHeuristic(gemm->context->handle, gemm->description,
                                                      gemm->a, gemm->b, gemm->d, gemm->d,
                                                      preference, wanted, results, &found);
        found = gemm->status ? 0 : found;
    }
    cublasLtMatmulPreferenceDestroy(preference);
    return found;
}

cublasStatus_t gemm_launch(struct gemm *gemm, cudaStream_t stream, const struct gemm_operands *o,
                           const cublasLtMatmulAlgo_t *algorithm, float beta, void *workspace)
{
    const float one = 1;

    if ((has_bias(gemm->shape.epilogue) && SET(gemm, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o->bias)) ||
        (has_aux(gemm->shape.epilogue) &&
         SET(gemm, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, o->aux)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (is_fp8(&gemm->shape) && set_scales(gemm, o->scale_a, o->scale_b))
        return CUBLAS_STATUS_INVALID_VALUE;
    return cublasLtMatmul(gemm->context->handle, gemm->description, &one, o->a, gemm->a, o->b,
                          gemm->b, &beta, o->d, gemm->d, o->d, gemm->d, algorithm, workspace,
                          GEMM_WORKSPACE, stream);
}

enum { GEMM_KEY = 256, GEMM_ALGORITHM = 2 * sizeof(cublasLtMatmulAlgo_t) + 1 };

/* The product's key among the tuning results. It includes an alignment below the usual one: an
 * algorithm for a larger alignment would read beyond the elements, or fault. */
static void make_key(const struct gemm_shape *s, char key[GEMM_KEY])
{
    const size_t size = GEMM_KEY;
    size_t used;

    snprintf(key, size,
             "gemm:%" PRId64 "x%" PRId64 "x%" PRId64 ":%c%c:%" PRId64 ":%" PRId64 ":%" PRId64
             ":%d%d%d:%d:%d",
             s->m, s->n, s->k, s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N', s->lda,
             s->ldb, s->ldd, s->type, s->out, s->bias_type, s->epilogue, s->batch);
    used = strlen(key);
    if (is_fp8(s)) {
        snprintf(key + used, size - used, ":fp8-%d%d%d", s->fp8_a, s->fp8_b, s->fast);
        used = strlen(key);
    }
    if (is_fp8(s) && (s->part_a != SCALED_WHOLE || s->part_b != SCALED_WHOLE)) {
        snprintf(key + used, size - used, ":blocks-%d%d", s->part_a, s->part_b);
        used = strlen(key);
    }
    if ((s->alignment_a & s->alignment_b & s->alignment_d) < GEMM_ALIGNMENT)
        snprintf(key + used, size - used, ":%u,%u,%u", s->alignment_a, s->alignment_b,
                 s->alignment_d);
}

/* The library allows storing and restoring the bytes of an algorithm. */
static void write_algorithm(const cublasLtMatmulAlgo_t *algorithm, char text[GEMM_ALGORITHM])
{
    const unsigned char *bytes = (const unsigned char *)algorithm;

    for (size_t i = 0; i < sizeof(*algorithm); i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

static int read_algorithm(const char *text, cublasLtMatmulAlgo_t *algorithm)
{
    unsigned char *bytes = (unsigned char *)algorithm;

    if (strlen(text) != 2 * sizeof(*algorithm) + (size_t)tuning_is_provisional(text))
        return -1;
    for (size_t i = 0; i < sizeof(*algorithm); i++) {
        unsigned value;

        if (sscanf(text + 2 * i, "%2x", &value) != 1)
            return -1;
        bytes[i] = (unsigned char)value;
    }
    return 0;
}

int gemm_accepts(struct gemm *gemm, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t check;

    return cublasLtMatmulAlgoCheck(gemm->context->handle, gemm->description, gemm->a, gemm->b,
                                   gemm->d, gemm->d, algorithm, &check) == 0 &&
           check.workspaceSize <= GEMM_WORKSPACE;
}

/* A remembered algorithm is used only if the library accepts it for this product. */
static int recall(struct gemm *gemm, const char *key)
{
    const char *text = tuning_get(gemm->context->tuning, key);

    gemm->remembered =
        text && read_algorithm(text, &gemm->algorithm) == 0 && gemm_accepts(gemm, &gemm->algorithm);
    gemm->provisional = gemm->remembered && tuning_is_provisional(text);
    return gemm->remembered;
}

/* The library does not vouch for the neighbors of the algorithms that it offers: a process that
 * dies while it tries them leaves a record, and the next one does not try them. */
static int may_look_around(struct gemm *gemm, const char *key)
{
    return gemm_has_neighbors(gemm) && !cudaStreamSynchronize(gemm->context->stream) &&
           tuning_try(gemm->context->tuning, key) == 0;
}

static int search(struct gemm *gemm, const struct gemm_operands *scratch, const char *key,
                  const cublasLtMatmulHeuristicResult_t *offered, int count, struct error *err)
{
    int around = may_look_around(gemm, key);
    int failed = gemm_search(gemm, scratch, offered, count, around);

    gemm->provisional = gemm_has_neighbors(gemm) && !around;
    /* All later times are wrong, too, and the record in the file must be kept. */
    if (cudaStreamSynchronize(gemm->context->stream)) {
        gemm->context->broken = 1;
        return error_set(
            err,
            "the GPU crashed while algorithms for the product %s were timed; restart the run%s",
            key, around ? "; the algorithm will be skipped" : CUDA_CHECK_NODE);
    }
    if (failed)
        return error_set(err, "none of cuBLASLt's kernels for the product %s runs" CUDA_CHECK_NODE,
                         key);
    return 0;
}

static int choose(struct gemm *gemm, const struct gemm_operands *scratch, struct error *err)
{
    cublasLtMatmulHeuristicResult_t results[GEMM_MOST_OFFERED];
    int wanted = scratch ? gemm->context->candidates : 1, found;
    char key[GEMM_KEY];

    make_key(&gemm->shape, key);
    if (recall(gemm, key))
        return 0;
    found = candidates(gemm, results, wanted < GEMM_MOST_OFFERED ? wanted : GEMM_MOST_OFFERED);
    if (found == 0)
        return error_set(
            err,
            "cuBLASLt has no kernel for the matrix product %s (%s: %s); install another "
            "version of CUDA, or change the model's sizes to multiples of %d",
            key, gemm->failed ? gemm->failed : "preferences", cublasLtGetStatusName(gemm->status),
            is_fp8(&gemm->shape) ? 16 : 8);
    gemm->algorithm = results[0].algo;
    gemm->provisional = true;
    if (!scratch)
        return 0;
    if (wanted > 1 && search(gemm, scratch, key, results, found, err))
        return -1;
    if (gemm->finalists_count == 0)
        gemm_remember(gemm);
    return 0;
}

void gemm_use(struct gemm *gemm, int finalist)
{
    gemm->algorithm = gemm->finalists[finalist].algorithm;
}

void gemm_remember(struct gemm *gemm)
{
    static const char provisional[] = {TUNING_PROVISIONAL, '\0'};
    char key[GEMM_KEY], text[GEMM_ALGORITHM], value[sizeof(text) + sizeof(provisional)];

    make_key(&gemm->shape, key);
    write_algorithm(&gemm->algorithm, text);
    snprintf(value, sizeof(value), "%s%s", text, gemm->provisional ? provisional : "");
    gemm->remembered = true;
    tuning_put(gemm->context->tuning, key, value);
}

void gemm_forget(struct gemm *gemm)
{
    char key[GEMM_KEY];

    make_key(&gemm->shape, key);
    tuning_untry(gemm->context->tuning, key);
}

static uint32_t usual_at_most(uint32_t alignment)
{
    return alignment > 0 && alignment < GEMM_ALIGNMENT ? alignment : GEMM_ALIGNMENT;
}

struct gemm *gemm_create(struct gemm_context *context, const struct gemm_shape *shape,
                         const struct gemm_operands *scratch, struct error *err)
{
    struct gemm *gemm = xcalloc(1, sizeof(*gemm));

    gemm->context = context;
    gemm->shape = *shape;
    gemm->shape.alignment_a = usual_at_most(shape->alignment_a);
    gemm->shape.alignment_b = usual_at_most(shape->alignment_b);
    gemm->shape.alignment_d = usual_at_most(shape->alignment_d);
    if (describe(gemm)) {
        error_bug(err,
                  "cuBLASLt cannot describe a product of %" PRId64 "x%" PRId64 "x%" PRId64
                  " (%s: %s)",
                  shape->m, shape->n, shape->k, gemm->failed ? gemm->failed : "layouts",
                  cublasLtGetStatusName(gemm->status));
        goto fail;
    }
    if (choose(gemm, scratch, err))
        goto fail;
    return gemm;
fail:
    gemm_destroy(gemm);
    return NULL;
}

void gemm_destroy(struct gemm *gemm)
{
    if (!gemm)
        return;
    if (gemm->a)
        cublasLtMatrixLayoutDestroy(gemm->a);
    if (gemm->b)
        cublasLtMatrixLayoutDestroy(gemm->b);
    if (gemm->d)
        cublasLtMatrixLayoutDestroy(gemm->d);
    if (gemm->description)
        cublasLtMatmulDescDestroy(gemm->description);
    free(gemm);
}

cublasStatus_t gemm_run(struct gemm *gemm, cudaStream_t stream,
                        const struct gemm_operands *operands, int accumulate, void *workspace)
{
    return gemm_launch(gemm, stream, operands, &gemm->algorithm, (float)accumulate, workspace);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "flash.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "cudnn_graph.h"
#include "hopper_attention.h"

/* Rows of the tensor tables. Both graphs share one numbering; each uses some of the rows. */
enum row {
    Q,
    KT,
    V,
    VT,
    O,
    LSE,
    D_O,
    DQ,
    DK,
    DV,
    SCALE,
    MINUS_INFINITY,
    ONE,
    QUERIES,
    KEYS,
    S,
    SCALED,
    ROW,
    COLUMN,
    VISIBLE,
    MASKED,
    START,
    STARTED,
    IN_DOCUMENT,
    SEEN_QUERIES,
    SEEN_KEYS,
    ROW_AHEAD,
    ROW_SHIFTED,
    PAD_ROW,
    PAD_COLUMN,
    ROW_IN,
    COLUMN_IN,
    BOTH_IN,
    PADDED,
    MAXIMUM,
    SHIFTED,
    EXPONENT,
    SUM,
    LOG_SUM,
    P,
    O_DO,
    O_DO_SUM,
    DELTA,
    LESS_LSE,
    P_T,
    DV_HEADS,
    DP,
    DP_LESS,
    DP_P,
    DS,
    DS_T,
    DK_HEADS,
    K_PLAIN,
    DQ_SUM,
    SEED,
    OFFSET,
    KEPT,
    KEPT_SCALE,
    KEPT_SHARE,
    P_KEPT,
    P_SCALED,
    DP_KEPT,
    DP_SCALED,
    END,
    BEFORE_END,
    IN_BOUNDS,
    ROW_COUNT,
};

struct flash {
    struct flash_shape shape;
    struct cudnn_graph *graph; /* NULL: our own kernels */
    cudnnHandle_t handle;
    int32_t queries, keys;
    int padded; /* the length must be passed to the library; not needed for a multiple of 128 */
    float scale, minus_infinity, one;
    float kept_scale, kept_share; /* of dropout: 1 / (1 - p), 1 - p */
    int32_t *lengths; /* padded: query lengths of the batch, then key lengths, on the device */
    size_t delta_bytes, dq_bytes; /* parts of the workspace that are tensors of the graph */
    size_t workspace;
};

enum { LENGTH_MULTIPLE = 128, WORKSPACE_ALIGN = 256 };

#define FLOAT CUDNN_DATA_FLOAT
#define NO    GRAPH_NONE

static size_t align(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
}

static struct graph_tensor tensor(enum graph_place place, cudnnDataType_t type, int64_t d0,
                                  int64_t d1, int64_t d2, int64_t d3)
{
    struct graph_tensor t = {place, type, {d0, d1, d2, d3}, {d1 * d2 * d3, d2 * d3, d3, 1}};

    return t;
}

static struct graph_tensor operand(const struct flash_shape *shape, struct flash_strides strides,
                                   int64_t heads, int64_t positions, int transposed)
{
    struct graph_tensor t = {GRAPH_MEMORY,
                             shape->type,
                             {shape->batch, heads, positions, shape->width},
                             {strides.batch, strides.head, strides.position, 1}};

    if (transposed) {
        t.dims[2] = shape->width;
        t.dims[3] = positions;
        t.strides[2] = 1;
        t.strides[3] = strides.position;
    }
    return t;
}

static void fill_scores(struct graph_tensor *t, const struct flash_shape *shape, int first,
                        int last)
{
    for (int i = first; i <= last; i++)
        t[i] = tensor(GRAPH_INNER, FLOAT, shape->batch, shape->heads, shape->queries, shape->keys);
}

static void fill_rows(struct graph_tensor *t, const struct flash_shape *shape, int first, int last)
{
    for (int i = first; i <= last; i++)
        t[i] = tensor(GRAPH_INNER, FLOAT, shape->batch, shape->heads, shape->queries, 1);
}

/* The last query is aligned with the last key (bottom-right), not the first with the first. */
static int shifted(const struct flash_shape *shape)
{
    return shape->causal && shape->queries != shape->keys;
}

static int is_masked(const struct flash_shape *shape)
{
    return shape->causal || shape->documents || shape->ends;
}

static void fill_common(struct graph_tensor *t, const struct flash *flash)
{
    const struct flash_shape *shape = &flash->shape;

    t[Q] = operand(shape, shape->q, shape->heads, shape->queries, 0);
    t[KT] = operand(shape, shape->k, shape->groups, shape->keys, 1);
    t[O] = operand(shape, shape->o, shape->heads, shape->queries, 0);
    t[LSE] = tensor(GRAPH_MEMORY, FLOAT, shape->batch, shape->heads, shape->queries, 1);
    t[SCALE] = tensor(GRAPH_SCALAR, FLOAT, 1, 1, 1, 1);
    fill_scores(t, shape, S, SCALED);
    if (shape->causal) {
        fill_scores(t, shape, ROW, MASKED);
        t[ROW].type = t[COLUMN].type = CUDNN_DATA_INT32;
        t[VISIBLE].type = CUDNN_DATA_BOOLEAN;
    }
    if (!shape->causal && is_masked(shape)) {
        fill_scores(t, shape, COLUMN, COLUMN);
        t[COLUMN].type = CUDNN_DATA_INT32;
    }
    if (shape->ends) {
        t[END] = tensor(GRAPH_MEMORY, CUDNN_DATA_INT32, shape->batch, 1, shape->queries, 1);
        fill_scores(t, shape, BEFORE_END, IN_BOUNDS);
        t[BEFORE_END].type = CUDNN_DATA_BOOLEAN;
    }
    if (shape->documents) {
        t[START] = tensor(GRAPH_MEMORY, CUDNN_DATA_INT32, shape->batch, 1, shape->queries, 1);
        fill_scores(t, shape, STARTED, IN_DOCUMENT);
        t[STARTED].type = CUDNN_DATA_BOOLEAN;
    }
    if (shifted(shape)) {
        t[SEEN_QUERIES] = t[SEEN_KEYS] = tensor(GRAPH_SCALAR, CUDNN_DATA_INT32, 1, 1, 1, 1);
        fill_scores(t, shape, ROW_AHEAD, ROW_SHIFTED);
        t[ROW_AHEAD].type = t[ROW_SHIFTED].type = CUDNN_DATA_INT32;
    }
    if (shape->dropout > 0) {
        t[SEED] = t[OFFSET] = tensor(GRAPH_MEMORY, CUDNN_DATA_INT64, 1, 1, 1, 1);
        t[KEPT_SCALE] = tensor(GRAPH_SCALAR, FLOAT, 1, 1, 1, 1);
        fill_scores(t, shape, KEPT, KEPT);
        fill_scores(t, shape, P_KEPT, P_SCALED);
    }
    if (is_masked(shape) || flash->padded)
        t[MINUS_INFINITY] = tensor(GRAPH_SCALAR, FLOAT, 1, 1, 1, 1);
    if (flash->padded) {
        t[QUERIES] = t[KEYS] = tensor(GRAPH_MEMORY, CUDNN_DATA_INT32, shape->batch, 1, 1, 1);
        fill_scores(t, shape, PAD_ROW, PADDED);
        t[PAD_ROW].type = t[PAD_COLUMN].type = CUDNN_DATA_INT32;
        t[ROW_IN].type = t[COLUMN_IN].type = t[BOTH_IN].type = CUDNN_DATA_BOOLEAN;
    }
}

static void fill_forward(struct graph_tensor *t, const struct flash *flash)
{
    const struct flash_shape *shape = &flash->shape;

    fill_common(t, flash);
    t[V] = operand(shape, shape->v, shape->groups, shape->keys, 0);
    fill_rows(t, shape, MAXIMUM, MAXIMUM);
    fill_scores(t, shape, SHIFTED, EXPONENT);
    fill_rows(t, shape, SUM, LOG_SUM);
    fill_scores(t, shape, P, P);
    t[shape->dropout > 0 ? P_SCALED : P].type = shape->type;
}

static void fill_backward(struct graph_tensor *t, const struct flash *flash)
{
    const struct flash_shape *s = &flash->shape;

    fill_common(t, flash);
    t[VT] = operand(s, s->v, s->groups, s->keys, 1);
    t[D_O] = operand(s, s->o, s->heads, s->queries, 0);
    t[DQ] = operand(s, s->dq, s->heads, s->queries, 0);
    t[DK] = operand(s, s->dk, s->groups, s->keys, 0);
    t[DV] = operand(s, s->dv, s->groups, s->keys, 0);
    t[s->dropout > 0 ? KEPT_SHARE : ONE] = tensor(GRAPH_SCALAR, FLOAT, 1, 1, 1, 1);
    if (s->dropout > 0)
        fill_scores(t, s, DP_KEPT, DP_SCALED);
    t[O_DO] = tensor(GRAPH_INNER, FLOAT, s->batch, s->heads, s->queries, s->width);
    fill_rows(t, s, O_DO_SUM, DELTA);
    t[DELTA].place = GRAPH_MEMORY;
    fill_scores(t, s, LESS_LSE, LESS_LSE);
    fill_scores(t, s, EXPONENT, EXPONENT);
    fill_scores(t, s, DP, DS);
    t[P_T] =
        (struct graph_tensor){GRAPH_INNER,
                              s->type,
                              {s->batch, s->heads, s->keys, s->queries},
                              {s->heads * s->queries * s->keys, s->queries * s->keys, 1, s->keys}};
    t[DS_T] = t[P_T];
    if (s->heads != s->groups)
        t[DV_HEADS] = t[DK_HEADS] =
            tensor(GRAPH_INNER, s->type, s->batch, s->heads, s->keys, s->width);
    t[K_PLAIN] = operand(s, s->k, s->groups, s->keys, 0);
    t[K_PLAIN].place = GRAPH_INNER;
    if (!s->deterministic)
        t[DQ_SUM] = tensor(GRAPH_MEMORY, FLOAT, s->batch, s->heads, s->queries, s->width);
}

/* Append operations to a table; 'next' is its end. */
static void pointwise(struct graph_operation **next, cudnnPointwiseMode_t mode,
                      cudnnDataType_t compute, int a, int b, int y)
{
    *(*next)++ =
        (struct graph_operation){GRAPH_POINTWISE, mode, compute, a, b, NO, y, 0, NO, NO, NO, 0};
}

static void generate_index(struct graph_operation **next, cudnnDataType_t compute, int like, int y,
                           int axis)
{
    *(*next)++ = (struct graph_operation){
        GRAPH_POINTWISE, CUDNN_POINTWISE_GEN_INDEX, compute, like, NO, NO, y, axis, NO, NO, NO, 0};
}

static void choose(struct graph_operation **next, int condition, int a, int b, int y)
{
    *(*next)++ = (struct graph_operation){GRAPH_POINTWISE,
                                          CUDNN_POINTWISE_BINARY_SELECT,
                                          FLOAT,
                                          a,
                                          b,
                                          condition,
                                          y,
                                          0,
                                          NO,
                                          NO,
                                          NO,
                                          0};
}

static void matmul(struct graph_operation **next, int a, int b, int y, int rows, int columns,
                   int inner)
{
    *(*next)++ =
        (struct graph_operation){GRAPH_MATMUL, 0, FLOAT, a, b, NO, y, 0, rows, columns, inner, 0};
}

static void reduce(struct graph_operation **next, cudnnReduceTensorOp_t mode, int a, int y)
{
    *(*next)++ =
        (struct graph_operation){GRAPH_REDUCE, mode, FLOAT, a, NO, NO, y, 0, NO, NO, NO, 0};
}

static void reshape(struct graph_operation **next, int a, int y)
{
    *(*next)++ = (struct graph_operation){GRAPH_RESHAPE, 0, FLOAT, a, NO, NO, y, 0, NO, NO, NO, 0};
}

/* Which probabilities are kept. */
static void draw(struct graph_operation **next, const struct flash *flash)
{
    *(*next)++ = (struct graph_operation){.kind = GRAPH_RANDOM,
                                          .compute = FLOAT,
                                          .a = SEED,
                                          .b = OFFSET,
                                          .t = NO,
                                          .y = KEPT,
                                          .rows = NO,
                                          .columns = NO,
                                          .inner = NO,
                                          .probability = 1 - flash->shape.dropout};
}

/* Positions beyond the actual lengths become minus infinity. Returns the row of the result. */
static int mask_padding(struct graph_operation **next, int scores)
{
    generate_index(next, CUDNN_DATA_INT32, scores, PAD_ROW, 2);
    generate_index(next, CUDNN_DATA_INT32, scores, PAD_COLUMN, 3);
    pointwise(next, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, PAD_ROW, QUERIES, ROW_IN);
    pointwise(next, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, PAD_COLUMN, KEYS, COLUMN_IN);
    pointwise(next, CUDNN_POINTWISE_LOGICAL_AND, CUDNN_DATA_BOOLEAN, ROW_IN, COLUMN_IN, BOTH_IN);
    choose(next, BOTH_IN, scores, MINUS_INFINITY, PADDED);
    return PADDED;
}

/* Keys after the query become minus infinity. */
static int mask_causal(struct graph_operation **next, const struct flash *flash, int scores)
{
    int row = ROW;

    generate_index(next, FLOAT, scores, ROW, 2);
    generate_index(next, FLOAT, scores, COLUMN, 3);
    if (shifted(&flash->shape)) {
        pointwise(next, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, ROW, SEEN_KEYS, ROW_AHEAD);
        pointwise(next, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, ROW_AHEAD, SEEN_QUERIES,
                  ROW_SHIFTED);
        row = ROW_SHIFTED;
    }
    pointwise(next, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, COLUMN, VISIBLE);
    choose(next, VISIBLE, scores, MINUS_INFINITY, MASKED);
    return MASKED;
}

/* Keys that a query does not see become minus infinity. Returns the row of the result. */
static int mask_keys(struct graph_operation **next, const struct flash *flash, int scores)
{
    const struct flash_shape *shape = &flash->shape;

    if (shape->causal)
        scores = mask_causal(next, flash, scores);
    else if (is_masked(shape))
        generate_index(next, FLOAT, scores, COLUMN, 3);
    if (shape->documents) {
        pointwise(next, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, COLUMN, START, STARTED);
        choose(next, STARTED, scores, MINUS_INFINITY, IN_DOCUMENT);
        scores = IN_DOCUMENT;
    }
    if (shape->ends) {
        pointwise(next, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, COLUMN, END, BEFORE_END);
        choose(next, BEFORE_END, scores, MINUS_INFINITY, IN_BOUNDS);
        scores = IN_BOUNDS;
    }
    return scores;
}

/* The order of operations is the one that cuDNN's pattern matcher expects. */
static void forward_operations(struct graph_operation *next, const struct flash *flash)
{
    int queries = flash->padded ? (int)QUERIES : NO, keys = flash->padded ? (int)KEYS : NO;
    int scores = SCALED;

    matmul(&next, Q, KT, S, queries, keys, NO);
    pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, S, SCALE, SCALED);
    if (flash->padded)
        scores = mask_padding(&next, scores);
    scores = mask_keys(&next, flash, scores);
    reduce(&next, CUDNN_REDUCE_TENSOR_MAX, scores, MAXIMUM);
    pointwise(&next, CUDNN_POINTWISE_SUB, FLOAT, scores, MAXIMUM, SHIFTED);
    pointwise(&next, CUDNN_POINTWISE_EXP, FLOAT, SHIFTED, NO, EXPONENT);
    reduce(&next, CUDNN_REDUCE_TENSOR_ADD, EXPONENT, SUM);
    pointwise(&next, CUDNN_POINTWISE_LOG, FLOAT, SUM, NO, LOG_SUM);
    pointwise(&next, CUDNN_POINTWISE_ADD, FLOAT, MAXIMUM, LOG_SUM, LSE);
    pointwise(&next, CUDNN_POINTWISE_DIV, FLOAT, EXPONENT, SUM, P);
    if (flash->shape.dropout > 0) {
        draw(&next, flash);
        pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, P, KEPT, P_KEPT);
        pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, P_KEPT, KEPT_SCALE, P_SCALED);
    }
    matmul(&next, flash->shape.dropout > 0 ? P_SCALED : P, V, O, queries, NO, keys);
}

static void backward_operations(struct graph_operation *next, const struct flash *flash)
{
    int queries = flash->padded ? (int)QUERIES : NO, keys = flash->padded ? (int)KEYS : NO;
    int grouped = flash->shape.heads != flash->shape.groups, scores = SCALED;
    int dropped = flash->shape.dropout > 0;

    if (dropped)
        draw(&next, flash);
    pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, D_O, O, O_DO);
    reduce(&next, CUDNN_REDUCE_TENSOR_ADD, O_DO, O_DO_SUM);
    pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, O_DO_SUM, dropped ? KEPT_SHARE : ONE, DELTA);

    matmul(&next, Q, KT, S, queries, keys, NO);
    pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, S, SCALE, SCALED);
    if (flash->padded)
        scores = mask_padding(&next, scores);
    pointwise(&next, CUDNN_POINTWISE_SUB, FLOAT, scores, LSE, LESS_LSE);
    scores = LESS_LSE;
    scores = mask_keys(&next, flash, scores);
    pointwise(&next, CUDNN_POINTWISE_EXP, FLOAT, scores, NO, EXPONENT);
    if (dropped) {
        pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, EXPONENT, KEPT, P_KEPT);
        pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, P_KEPT, KEPT_SCALE, P_SCALED);
    }
    reshape(&next, dropped ? P_SCALED : EXPONENT, P_T);
    matmul(&next, P_T, D_O, grouped ? DV_HEADS : DV, keys, NO, queries);
    if (grouped)
        reduce(&next, CUDNN_REDUCE_TENSOR_ADD, DV_HEADS, DV);

    matmul(&next, D_O, VT, DP, queries, keys, NO);
    if (dropped)
        pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, DP, KEPT, DP_KEPT);
    pointwise(&next, CUDNN_POINTWISE_SUB, FLOAT, dropped ? DP_KEPT : DP, DELTA, DP_LESS);
    pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, DP_LESS, EXPONENT, DP_P);
    if (dropped)
        pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, DP_P, KEPT_SCALE, DP_SCALED);
    pointwise(&next, CUDNN_POINTWISE_MUL, FLOAT, dropped ? DP_SCALED : DP_P, SCALE, DS);
    reshape(&next, DS, DS_T);
    matmul(&next, DS_T, Q, grouped ? DK_HEADS : DK, keys, NO, queries);
    if (grouped)
        reduce(&next, CUDNN_REDUCE_TENSOR_ADD, DK_HEADS, DK);

    reshape(&next, KT, K_PLAIN);
    matmul(&next, DS, K_PLAIN, flash->shape.deterministic ? DQ : DQ_SUM, queries, NO, keys);
    if (!flash->shape.deterministic)
        pointwise(&next, CUDNN_POINTWISE_IDENTITY, FLOAT, DQ_SUM, NO, DQ);
}

static int make_lengths(struct flash *flash, struct error *err)
{
    size_t count = 2 * (size_t)flash->shape.batch;
    int32_t *host = malloc(count * sizeof(*host));
    cudaError_t status;

    if (!host)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < count; i++)
        host[i] = (int32_t)(i < count / 2 ? flash->shape.queries : flash->shape.keys);
    status = cudaMalloc((void **)&flash->lengths, count * sizeof(*host));
    if (status == cudaSuccess)
        status = cudaMemcpy(flash->lengths, host, count * sizeof(*host), cudaMemcpyHostToDevice);
    free(host);
    if (status != cudaSuccess)
        return error_set(err, "attention's lengths: %s", cudaGetErrorString(status));
    return 0;
}

static int plan_graph(struct flash *flash, int backward, int choice, struct error *err)
{
    struct graph_operation operations[48] = {{GRAPH_END}};
    struct graph_tensor tensors[ROW_COUNT] = {{GRAPH_INNER}};
    const struct flash_shape *shape = &flash->shape;
    size_t rows = (size_t)(shape->batch * shape->heads * shape->queries);

    if (backward) {
        fill_backward(tensors, flash);
        backward_operations(operations, flash);
        flash->delta_bytes = align(rows * sizeof(float));
        if (!shape->deterministic)
            flash->dq_bytes = align(rows * (size_t)shape->width * sizeof(float));
    } else {
        fill_forward(tensors, flash);
        forward_operations(operations, flash);
    }
    flash->graph =
        cudnn_graph_create(flash->handle, backward ? "the gradient of attention" : "attention",
                           tensors, ROW_COUNT, operations, choice, err);
    if (!flash->graph)
        return -1;
    flash->workspace = flash->delta_bytes + flash->dq_bytes + cudnn_graph_workspace(flash->graph);
    return 0;
}

static int plan_cudnn(struct flash *flash, int backward, int choice, struct error *err)
{
    const struct flash_shape *shape = &flash->shape;

    flash->padded = shape->keys % LENGTH_MULTIPLE != 0 || shape->queries % LENGTH_MULTIPLE != 0;
    flash->scale = shape->scale;
    flash->minus_infinity = -INFINITY;
    flash->one = 1;
    flash->kept_share = (float)(1 - shape->dropout);
    flash->kept_scale = (float)(1 / (1 - shape->dropout));
    flash->queries = (int32_t)shape->queries;
    flash->keys = (int32_t)shape->keys;
    if (flash->padded && make_lengths(flash, err))
        return -1;
    return plan_graph(flash, backward, choice, err);
}

static int plan_ours(struct flash *flash, int backward, struct error *err)
{
    if (!hopper_attention_fits(&flash->shape))
        return error_set(err, "our kernels cannot do this attention on this GPU");
    flash->workspace = hopper_attention_workspace(&flash->shape, backward);
    return 0;
}

struct flash *flash_create(cudnnHandle_t handle, const struct flash_shape *shape, int backward,
                           int choice, struct error *err)
{
    struct flash *flash = calloc(1, sizeof(*flash));

    if (!flash) {
        error_set(err, "out of memory");
        return NULL;
    }
    flash->shape = *shape;
    flash->handle = handle;
    if (choice == FLASH_OURS ? plan_ours(flash, backward, err)
                             : plan_cudnn(flash, backward, choice, err)) {
        flash_destroy(flash);
        return NULL;
    }
    return flash;
}

void flash_destroy(struct flash *flash)
{
    if (!flash)
        return;
    cudnn_graph_destroy(flash->graph);
    cudaFree(flash->lengths);
    free(flash);
}

size_t flash_workspace(const struct flash *flash)
{
    return flash->workspace;
}

static void common_pointers(void **pointers, const struct flash *flash, const int64_t *seed,
                            struct flash_bounds bounds)
{
    pointers[START] = (void *)bounds.start;
    pointers[END] = (void *)bounds.end;
    pointers[SEED] = (void *)seed;
    pointers[OFFSET] = (void *)(seed + 1);
    pointers[KEPT_SCALE] = (void *)&flash->kept_scale;
    pointers[KEPT_SHARE] = (void *)&flash->kept_share;
    pointers[SCALE] = (void *)&flash->scale;
    pointers[MINUS_INFINITY] = (void *)&flash->minus_infinity;
    pointers[ONE] = (void *)&flash->one;
    pointers[SEEN_QUERIES] = (void *)&flash->queries;
    pointers[SEEN_KEYS] = (void *)&flash->keys;
    if (flash->padded) {
        pointers[QUERIES] = flash->lengths;
        pointers[KEYS] = flash->lengths + flash->shape.batch;
    }
}

static int ours_failed(struct error *err)
{
    cudaError_t status = cudaGetLastError();

    return error_set(err, "our attention cannot be started: %s",
                     status ? cudaGetErrorString(status)
                            : "the GPU cannot copy operands that lie like these");
}

int flash_forward(const struct flash *flash, const void *q, const void *k, const void *v, void *o,
                  float *lse, const int64_t *seed, struct flash_bounds bounds, void *workspace,
                  struct error *err)
{
    void *pointers[ROW_COUNT] = {NULL};
    cudaStream_t stream;

    if (!flash->graph) {
        if (cudnnGetStream(flash->handle, &stream) ||
            hopper_attention(stream, &flash->shape, q, k, v, o, lse, bounds.start, workspace))
            return ours_failed(err);
        return 0;
    }
    common_pointers(pointers, flash, seed, bounds);
    pointers[Q] = (void *)q;
    pointers[KT] = (void *)k;
    pointers[V] = (void *)v;
    pointers[O] = o;
    pointers[LSE] = lse;
    return cudnn_graph_run(flash->graph, pointers, workspace, err);
}

int flash_backward(const struct flash *flash, const void *q, const void *k, const void *v,
                   const void *o, const float *lse, const void *d_o, void *dq, void *dk, void *dv,
                   const int64_t *seed, struct flash_bounds bounds, void *workspace,
                   struct error *err)
{
    void *pointers[ROW_COUNT] = {NULL};
    char *space = workspace;
    cudaStream_t stream;

    if (!flash->graph) {
        if (cudnnGetStream(flash->handle, &stream) ||
            hopper_attention_gradient(stream, &flash->shape, q, k, v, o, lse, d_o, dq, dk, dv,
                                      bounds.start, workspace))
            return ours_failed(err);
        return 0;
    }
    common_pointers(pointers, flash, seed, bounds);
    pointers[Q] = (void *)q;
    pointers[KT] = (void *)k;
    pointers[VT] = (void *)v;
    pointers[O] = (void *)o;
    pointers[LSE] = (void *)lse;
    pointers[D_O] = (void *)d_o;
    pointers[DQ] = dq;
    pointers[DK] = dk;
    pointers[DV] = dv;
    pointers[DELTA] = space;
    pointers[DQ_SUM] = space + flash->delta_bytes;
    return cudnn_graph_run(flash->graph, pointers, space + flash->delta_bytes + flash->dq_bytes,
                           err);
}

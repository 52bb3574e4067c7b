/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient as graphs of cuDNN: a table of tensors and a table of operations each.
 */
#include "flash_private.h"

#define FLOAT CUDNN_DATA_FLOAT
#define NO    GRAPH_NONE

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

/* Append an operation to a table, whose end is 'next'. Returns it, for its other members. */
static struct graph_operation *append(struct graph_operation **next, enum graph_kind kind, int mode,
                                      cudnnDataType_t compute, int a, int b, int y)
{
    **next = (struct graph_operation){.kind = kind,
                                      .mode = mode,
                                      .compute = compute,
                                      .a = a,
                                      .b = b,
                                      .t = NO,
                                      .y = y,
                                      .rows = NO,
                                      .columns = NO,
                                      .inner = NO};
    return (*next)++;
}

static void pointwise(struct graph_operation **next, cudnnPointwiseMode_t mode,
                      cudnnDataType_t compute, int a, int b, int y)
{
    append(next, GRAPH_POINTWISE, mode, compute, a, b, y);
}

static void generate_index(struct graph_operation **next, cudnnDataType_t compute, int like, int y,
                           int axis)
{
    append(next, GRAPH_POINTWISE, CUDNN_POINTWISE_GEN_INDEX, compute, like, NO, y)->axis = axis;
}

static void choose(struct graph_operation **next, int condition, int a, int b, int y)
{
    append(next, GRAPH_POINTWISE, CUDNN_POINTWISE_BINARY_SELECT, FLOAT, a, b, y)->t = condition;
}

static void matmul(struct graph_operation **next, int a, int b, int y, int rows, int columns,
                   int inner)
{
    struct graph_operation *op = append(next, GRAPH_MATMUL, 0, FLOAT, a, b, y);

    op->rows = rows, op->columns = columns, op->inner = inner;
}

static void reduce(struct graph_operation **next, cudnnReduceTensorOp_t mode, int a, int y)
{
    append(next, GRAPH_REDUCE, mode, FLOAT, a, NO, y);
}

static void reshape(struct graph_operation **next, int a, int y)
{
    append(next, GRAPH_RESHAPE, 0, FLOAT, a, NO, y);
}

/* Which probabilities are kept. */
static void draw(struct graph_operation **next, const struct flash *flash)
{
    append(next, GRAPH_RANDOM, 0, FLOAT, SEED, OFFSET, KEPT)->probability =
        1 - flash->shape.dropout;
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

void flash_graph_forward(struct graph_tensor *tensors, struct graph_operation *operations,
                         const struct flash *flash)
{
    fill_forward(tensors, flash);
    forward_operations(operations, flash);
}

void flash_graph_backward(struct graph_tensor *tensors, struct graph_operation *operations,
                          const struct flash *flash)
{
    fill_backward(tensors, flash);
    backward_operations(operations, flash);
}

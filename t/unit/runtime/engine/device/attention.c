/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, on a sequence and on a cache, and its gradients. */
#include "device_attention.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

static const int64_t starts[] = {2, 5, 70, 71, 140, 330, 395}; /* of documents in sample 0 */
enum { STARTS = sizeof(starts) / sizeof(*starts) };

/* First position of the document that 'position' of sample 'b' belongs to. */
static int64_t document_of(int64_t b, int64_t position)
{
    int64_t found = 0;

    for (int i = 0; i < STARTS; i++)
        if (starts[i] + 3 * b <= position)
            found = starts[i] + 3 * b;
    return found;
}

/* One past the last key that a query at 'position' of sample 'b' sees: the end of its document or,
 * without documents, the length of the sample; the rest is padding. */
static int64_t end_of(const struct attention_shape *s, int64_t b, int64_t position)
{
    if (!s->documents)
        return s->kv_rows - s->kv_rows / 3 - b;
    for (int i = 0; i < STARTS; i++)
        if (starts[i] + 3 * b > position && starts[i] + 3 * b < s->kv_rows)
            return starts[i] + 3 * b;
    return s->kv_rows;
}

/* Queries, keys and values, adjacent in memory. */
static struct attention_shape shape_of(int64_t batch, int64_t q_rows, int64_t kv_rows,
                                       int64_t heads, int64_t kv_heads, int64_t size, int causal)
{
    int64_t width = (heads + 2 * kv_heads) * size;

    return (struct attention_shape){
        .batch = batch,
        .q_rows = q_rows,
        .kv_rows = kv_rows,
        .heads = heads,
        .kv_heads = kv_heads,
        .head_size = size,
        .type = type,
        .q = {q_rows * width, width, size},
        .kv = {kv_rows * width, width, size},
        .out = {q_rows * heads * size, heads * size, size},
        .scale = 1 / sqrt((double)size),
        .causal = causal,
        .all_heads = 2 * heads,
        .first_head = heads,
        .sequence = kv_rows,
    };
}

/* The row of each query over all samples, and the bounds of its document. */
static void place_queries(struct attention_test *t)
{
    const struct attention_shape *s = &t->shape;
    int64_t n = s->batch * s->q_rows;

    t->rows = malloc((size_t)n * sizeof(*t->rows));
    t->start = malloc((size_t)n * sizeof(*t->start));
    t->end = malloc((size_t)n * sizeof(*t->end));
    for (int64_t i = 0; i < n; i++) {
        int64_t position = i % s->q_rows + s->kv_rows - s->q_rows;

        t->rows[i] = (3 + i / s->q_rows) * s->kv_rows + position;
        t->start[i] = (int32_t)document_of(i / s->q_rows, position);
        t->end[i] = (int32_t)end_of(s, i / s->q_rows, position);
    }
    t->operands.row_index = upload(t->rows, (size_t)n * sizeof(*t->rows));
    t->operands.document_start = upload(t->start, (size_t)n * sizeof(*t->start));
    t->operands.document_end = upload(t->end, (size_t)n * sizeof(*t->end));
}

static struct attention_test begin(struct attention_shape s)
{
    int64_t outputs = s.batch * s.q_rows * s.heads * s.head_size;
    struct operation op = {.kind = OPERATION_ATTENTION, .attention = s};
    struct attention_test t = {
        .shape = s,
        .k_at = (size_t)(s.heads * s.head_size),
        .v_at = (size_t)((s.heads + s.kv_heads) * s.head_size),
    };

    t.q = tensor(s.batch * s.q.batch, 1), t.kv = tensor(s.batch * s.kv.batch, 1);
    t.out = tensor(outputs, 9), t.dout = tensor(outputs, 1);
    t.dq = tensor(t.q.n, 9), t.dkv = tensor(t.kv.n, 9);
    t.lse = tensor_as(TYPE_FP32, s.batch * s.heads * s.q_rows, 9, 0);
    t.operands = (struct attention_operands){
        .q = t.q.d,
        .k = (char *)t.kv.d + t.k_at * type_size(type),
        .v = (char *)t.kv.d + t.v_at * type_size(type),
        .out = t.out.d,
        .lse = t.lse.d,
        .state = state_on_device(),
        .purpose = 0x20001,
    };
    place_queries(&t);
    t.reference = (struct attention_case){.shape = s,
                                          .q = t.q.v,
                                          .k = t.kv.v + t.k_at,
                                          .v = t.kv.v + t.v_at,
                                          .start = t.start,
                                          .end = t.end};
    t.forward = plan(&op);
    return t;
}

static void end(struct attention_test *t)
{
    plan_destroy(t->forward);
    device_release(device, (void *)t->operands.row_index);
    device_release(device, (void *)t->operands.document_start);
    device_release(device, (void *)t->operands.document_end);
    device_release(device, (void *)t->operands.state);
    free(t->rows), free(t->start), free(t->end);
    tensor_free(&t->q), tensor_free(&t->kv), tensor_free(&t->out), tensor_free(&t->dout);
    tensor_free(&t->dq), tensor_free(&t->dkv), tensor_free(&t->lse);
}

/* Is the tensor bit-identical to 'before'? Frees 'before'. */
static int is_unchanged(const struct tensor *tensor, double *before)
{
    double *now = download(tensor);
    int same = memcmp(before, now, (size_t)tensor->n * sizeof(*now)) == 0;

    free(before), free(now);
    return same;
}

/* A second run that overwrites the results of the first is bit-identical, whether or not the device
 * must be deterministic. */
static void check_repeats(const struct attention_test *t)
{
    double *out = download(&t->out), *sums = download(&t->lse);
    int same;

    run_attention(t->forward, stream, &t->operands);
    same = is_unchanged(&t->out, out);
    same &= is_unchanged(&t->lse, sums);
    ok(same, "attention repeats to the bit");
}

static void check_forward(struct attention_test *t)
{
    double *expected = malloc((size_t)t->out.n * sizeof(double));
    double *sums = malloc((size_t)t->lse.n * sizeof(double));

    run_attention(t->forward, stream, &t->operands);
    t->reference.lse = sums;
    attention_reference(&t->reference, expected);
    t->reference.lse = NULL;
    agree(&t->out, expected, "attention");
    agree_closely(&t->lse, sums, "attention, log-sum-exp");
    check_repeats(t);
    free(expected), free(sums);
}

/* Check every row against the formula. Everything that is not a gradient is unchanged. */
static void check_rows(const struct attention_test *t)
{
    int64_t width = t->shape.q.row, k_at = (int64_t)t->k_at, v_at = (int64_t)t->v_at;
    struct attention_gradient q = {malloc((size_t)t->dq.n * sizeof(double)),
                                   calloc((size_t)t->dq.n, sizeof(double))};
    struct attention_gradient kv = {malloc((size_t)t->dkv.n * sizeof(double)),
                                    calloc((size_t)t->dkv.n, sizeof(double))};

    for (int64_t i = 0; i < t->dq.n; i++)
        q.v[i] = i % width < k_at ? 0 : t->dq.v[i];
    for (int64_t i = 0; i < t->dkv.n; i++)
        kv.v[i] = i % width < k_at ? t->dkv.v[i] : 0;
    attention_gradient_reference(&t->reference, t->dout.v, q,
                                 (struct attention_gradient){kv.v + k_at, kv.size + k_at},
                                 (struct attention_gradient){kv.v + v_at, kv.size + v_at});
    agree_each(&t->dq, q.v, q.size, "gradient of the queries, row by row");
    agree_each(&t->dkv, kv.v, kv.size, "gradient of keys and values, row by row");
    free(q.v), free(q.size), free(kv.v), free(kv.size);
}

/* Check against finite differences of the forward direction. */
static void check_differences(struct attention_test *t)
{
    struct probe probe = {attention_reference, &t->reference, t->dout.v, t->out.n};
    int64_t width = t->shape.q.row, k_at = (int64_t)t->k_at;
    double *gradient = difference(&probe, t->q.v, t->q.n);

    for (int64_t i = 0; i < t->q.n; i++)
        if (i % width >= k_at)
            gradient[i] = t->dq.v[i];
    agree(&t->dq, gradient, "gradient of the queries");
    free(gradient);
    gradient = difference(&probe, t->kv.v, t->kv.n);
    for (int64_t i = 0; i < t->kv.n; i++)
        if (i % width < k_at)
            gradient[i] = t->dkv.v[i];
    agree(&t->dkv, gradient, "gradient of keys and values");
    free(gradient);
}

static void check_gradients_repeat(const struct attention_test *t, struct device_plan *backward,
                                   const struct attention_backward_operands *operands)
{
    double *q = download(&t->dq), *kv = download(&t->dkv);
    int same;

    run_attention_backward(backward, stream, operands);
    same = is_unchanged(&t->dq, q);
    same &= is_unchanged(&t->dkv, kv);
    ok(same, "the gradient of attention repeats to the bit");
}

/* Call after check_forward: it uses its results. */
static void check_backward(struct attention_test *t)
{
    struct operation op = {.kind = OPERATION_ATTENTION_BACKWARD, .attention = t->shape};
    struct device_plan *backward = plan(&op);
    const struct attention_operands *o = &t->operands;
    struct attention_backward_operands operands = {
        .q = o->q,
        .k = o->k,
        .v = o->v,
        .out = o->out,
        .dout = t->dout.d,
        .lse = o->lse,
        .dq = t->dq.d,
        .dk = (char *)t->dkv.d + t->k_at * type_size(type),
        .dv = (char *)t->dkv.d + t->v_at * type_size(type),
        .document_start = o->document_start,
        .document_end = o->document_end,
        .row_index = o->row_index,
        .state = o->state,
        .purpose = o->purpose,
    };

    run_attention_backward(backward, stream, &operands);
    check_rows(t);
    if (t->q.n <= FEW && t->kv.n <= FEW)
        check_differences(t);
    /* Otherwise the library may add up gradients in 16 bits in any order. */
    if (deterministic || type == TYPE_FP32)
        check_gradients_repeat(t, backward, &operands);
    plan_destroy(backward);
}

static void check_attention(struct attention_shape s)
{
    struct attention_test t = begin(s);
    double *keep = s.dropout > 0 ? attention_mask(&t) : NULL;

    t.reference.keep = keep;
    check_forward(&t);
    check_backward(&t);
    end(&t);
    free(keep);
}

static void test_attention(int64_t batch, int64_t q_rows, int64_t kv_rows, int64_t heads,
                           int64_t kv_heads, int64_t size, int causal, int documents,
                           double dropout)
{
    struct attention_shape s = shape_of(batch, q_rows, kv_rows, heads, kv_heads, size, causal);

    s.documents = documents;
    s.dropout = dropout;
    check_attention(s);
}

/* Keys that end before the sequence does: bidirectional packing with 'documents', padding without
 * them. */
static void test_attention_ends(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads,
                                int64_t size, int causal, int documents, double dropout)
{
    struct attention_shape s = shape_of(batch, rows, rows, heads, kv_heads, size, causal);

    s.documents = documents;
    s.ends = 1;
    s.dropout = dropout;
    check_attention(s);
}

/* Scores so far apart that when a row's maximum grows from one tile to the next, the earlier sum
 * all but vanishes. */
static void test_attention_sharp(int64_t rows, int causal)
{
    struct attention_shape s = shape_of(1, rows, rows, 2, 1, 64, causal);

    s.scale *= 10;
    check_attention(s);
}

/* Each query sees the last 'window' keys: documents whose start moves. 'softcap' 0: none. */
static void test_attention_window(int64_t rows, int64_t keys, int64_t size, int64_t window,
                                  double softcap)
{
    struct attention_shape s = shape_of(2, rows, keys, 4, 2, size, 1);
    struct attention_test t;
    int64_t n = s.batch * s.q_rows;

    s.documents = window > 0;
    s.softcap = softcap;
    t = begin(s);
    for (int64_t i = 0; i < n && window > 0; i++) {
        int64_t first = i % rows + keys - rows - window + 1;

        t.start[i] = first > 0 ? (int32_t)first : 0;
    }
    transfer((void *)t.operands.document_start, t.start, (size_t)n * sizeof(*t.start),
             COPY_TO_DEVICE);
    check_forward(&t);
    check_backward(&t);
    end(&t);
}

/* Queries anywhere on a cache of 'places', whose keys and values are adjacent. */
static void test_attention_cached(int64_t batch, int64_t q_rows, int64_t places, int64_t heads,
                                  int64_t kv_heads, int64_t size)
{
    int64_t width = (heads + 2 * kv_heads) * size, kv_width = 2 * kv_heads * size;
    int64_t room = places + 3; /* a cache is longer than the part that a plan reads */
    struct attention_shape s = {
        .batch = batch,
        .q_rows = q_rows,
        .kv_rows = places,
        .heads = heads,
        .kv_heads = kv_heads,
        .head_size = size,
        .type = type,
        .q = {q_rows * width, width, size},
        .kv = {room * kv_width, kv_width, size},
        .out = {q_rows * heads * size, heads * size, size},
        .scale = 1 / sqrt((double)size),
        .causal = 1,
        .cached = 1,
        .all_heads = heads,
        .sequence = places,
    };
    struct operation op = {.kind = OPERATION_ATTENTION, .attention = s};
    struct tensor q = tensor(batch * q_rows * width, 1), kv = tensor(batch * room * kv_width, 1);
    struct tensor out = tensor(batch * q_rows * heads * size, 9);
    struct tensor lse = tensor_as(TYPE_FP32, batch * heads * q_rows, 9, 0);
    int64_t v_at = kv_heads * size;
    int32_t *positions = malloc((size_t)(batch * q_rows) * sizeof(*positions)), *positions_d;
    double *expected = malloc((size_t)out.n * sizeof(double));
    double *sums = malloc((size_t)lse.n * sizeof(double));
    struct attention_case c = {
        .shape = s, .q = q.v, .k = kv.v, .v = kv.v + v_at, .positions = positions, .lse = sums};
    struct device_plan *forward = plan(&op);

    /* Each sample is at a different position; the last query of a sample is padding. */
    for (int64_t i = 0; i < batch * q_rows; i++)
        positions[i] = (int32_t)((i / q_rows * 5 + i % q_rows) % places);
    positions[batch * q_rows - 1] = q_rows > 1 ? 0 : (int32_t)places - 1;
    positions_d = upload(positions, (size_t)(batch * q_rows) * sizeof(*positions));
    run_attention(forward, stream,
                  &(struct attention_operands){
                      .q = q.d,
                      .k = kv.d,
                      .v = (char *)kv.d + (size_t)v_at * type_size(type),
                      .out = out.d,
                      .lse = lse.d,
                      .positions = positions_d,
                  });
    attention_reference(&c, expected);
    agree(&out, expected, "attention on a cache");
    agree_closely(&lse, sums, "attention on a cache, log-sum-exp");
    plan_destroy(forward);
    free(positions), free(expected), free(sums);
    device_release(device, positions_d);
    tensor_free(&q), tensor_free(&kv), tensor_free(&out), tensor_free(&lse);
}

void attention_cases(void)
{
    test_attention(2, 6, 6, 2, 2, 8, 1, 0, 0);
    test_attention(1, 9, 9, 4, 2, 8, 1, 1, 0);
    test_attention(2, 4, 8, 4, 1, 16, 1, 0, 0);
    test_attention(1, 7, 7, 2, 2, 8, 0, 0, 0);
    /* Head size 64, for kernels that work in tiles of 64 or 128 rows: partial and whole tiles, one
     * and several, tiles without a visible key, and more of them than a GPU has multiprocessors. */
    test_attention(2, 1, 130, 2, 1, 64, 1, 0, 0);
    test_attention(3, 2, 65, 2, 2, 64, 1, 1, 0);
    test_attention(2, 65, 65, 2, 2, 64, 1, 0, 0);
    test_attention(1, 127, 127, 2, 1, 64, 0, 0, 0);
    test_attention(2, 128, 128, 2, 2, 64, 1, 0, 0);
    test_attention(1, 129, 129, 6, 2, 64, 1, 0, 0);
    test_attention(2, 200, 200, 2, 2, 64, 0, 0, 0);
    test_attention(2, 300, 300, 3, 1, 64, 1, 1, 0);
    test_attention(1, 520, 520, 2, 1, 64, 1, 0, 0);
    test_attention(1, 520, 520, 2, 2, 64, 1, 1, 0);
    test_attention(2, 130, 390, 6, 2, 64, 1, 0, 0);
    test_attention(2, 128, 512, 2, 2, 64, 1, 1, 0);
    test_attention(1, 70, 200, 2, 2, 64, 0, 0, 0);
    test_attention(5, 130, 130, 16, 4, 64, 1, 0, 0);
    /* Small probabilities, and their products, underflow in fp16. */
    if (type != TYPE_FP16) {
        test_attention_sharp(1030, 1);
        test_attention_sharp(390, 0);
    }
    test_attention_cached(3, 1, 16, 4, 4, 8);
    test_attention_cached(3, 1, 16, 4, 1, 16);
    test_attention_cached(2, 7, 24, 4, 2, 8);
    test_attention_cached(1, 150, 160, 2, 1, 8);
    /* Odd head sizes, which start anywhere; in rows that are aligned nevertheless (8 times their
     * size), and in odd ones. */
    test_attention(2, 6, 6, 4, 2, 25, 1, 0, 0);
    test_attention(1, 8, 8, 6, 1, 7, 1, 1, 0);
    test_attention(1, 5, 9, 3, 3, 7, 1, 0, 0);
    test_attention(1, 7, 7, 2, 1, 33, 0, 0, 0);
    test_attention(2, 64, 64, 4, 2, 25, 1, 0, 0);
    test_attention(1, 128, 128, 6, 1, 33, 1, 1, 0);
    test_attention(1, 65, 129, 3, 3, 33, 1, 0, 0);
    test_attention(2, 33, 33, 3, 1, 77, 1, 0, 0);
    test_attention_cached(3, 1, 16, 6, 3, 25);
    test_attention_cached(2, 8, 24, 6, 1, 7);
    test_attention_cached(1, 33, 64, 2, 1, 33);
}

/* Rows for the tiles of GPUs. A CPU, whose blocks attention_cases covers, gets fewer of them. */
static void test_tiles(int64_t batch, int64_t q_rows, int64_t kv_rows, int64_t heads,
                       int64_t kv_heads, int64_t size, int causal, int documents, double dropout)
{
    int64_t rows = gpu_rows(q_rows);

    test_attention(batch, rows, kv_rows - q_rows + rows, heads, kv_heads, size, causal, documents,
                   dropout);
}

void wide_attention_cases(void)
{
    /* Tiles as for head size 64 above. */
    test_tiles(2, 65, 65, 2, 2, 128, 1, 0, 0);
    test_tiles(1, 127, 127, 2, 1, 128, 0, 0, 0);
    test_tiles(2, 128, 128, 2, 2, 128, 1, 0, 0);
    test_tiles(1, 129, 129, 6, 2, 128, 1, 0, 0);
    test_tiles(1, 256, 256, 2, 1, 128, 0, 0, 0);
    test_tiles(1, 300, 300, 3, 1, 128, 1, 1, 0);
    test_tiles(1, 384, 384, 2, 2, 128, 1, 1, 0);
    test_tiles(1, 130, 390, 2, 1, 128, 1, 0, 0);
    test_tiles(1, 128, 512, 2, 2, 128, 1, 1, 0);
    test_tiles(1, 70, 200, 2, 2, 128, 0, 0, 0);
    /* Other sizes, which the library may or may not support. */
    test_tiles(1, 130, 130, 4, 2, 80, 1, 0, 0);
    test_tiles(1, 128, 256, 2, 2, 80, 1, 1, 0);
    test_tiles(1, 128, 128, 2, 1, 96, 1, 0, 0);
    test_tiles(1, 100, 100, 2, 2, 96, 0, 0, 0);
    /* Tiles, as for head size 64: ends of rows, documents, shared keys. */
    test_tiles(2, 257, 257, 2, 2, 80, 1, 1, 0);
    test_tiles(1, 190, 385, 3, 1, 80, 1, 0, 0);
    test_tiles(2, 300, 300, 3, 1, 96, 1, 1, 0);
    test_tiles(1, 70, 200, 2, 2, 96, 0, 0, 0);
    test_tiles(1, 130, 130, 2, 1, 256, 1, 0, 0);
    test_tiles(1, 128, 128, 2, 2, 256, 1, 1, 0);
}

void attention_dropout_cases(void)
{
    test_tiles(2, 9, 9, 2, 1, 8, 1, 0, 0.25);
    test_tiles(2, 64, 64, 2, 2, 64, 1, 0, 0.25);
    test_tiles(1, 65, 65, 4, 2, 64, 1, 0, 0.1);
    test_tiles(2, 128, 128, 2, 1, 64, 1, 0, 0.25);
    test_tiles(1, 200, 200, 2, 2, 64, 0, 0, 0.1);
    test_tiles(1, 300, 300, 3, 1, 64, 1, 1, 0.25);
    test_tiles(1, 130, 390, 2, 2, 64, 1, 0, 0.1);
    test_tiles(2, 128, 128, 2, 2, 128, 1, 0, 0.1);
    test_tiles(1, 129, 129, 6, 2, 128, 1, 0, 0.25);
    test_tiles(1, 256, 256, 2, 1, 128, 0, 0, 0.1);
    test_tiles(2, 128, 128, 2, 1, 128, 1, 1, 0.25);
    test_tiles(1, 130, 130, 2, 1, 80, 1, 0, 0.1);
    /* Only with the scores in memory; the last three have more keys than a block holds at once. */
    test_tiles(2, 33, 33, 4, 2, 25, 1, 0, 0.25);
    test_tiles(1, 3, 2056, 2, 1, 20, 1, 0, 0.1);
    test_tiles(1, 3, 2051, 2, 1, 20, 1, 0, 0.1);
    test_tiles(1, 2, 8208, 1, 1, 100, 1, 0, 0.1);
    test_tiles(1, 2, 8203, 1, 1, 100, 1, 0, 0.1);
    test_tiles(1, 2, 16400, 1, 1, 100, 1, 1, 0);
}

void attention_window_cases(void)
{
    test_attention_window(9, 9, 8, 4, 0);
    test_attention_window(9, 9, 8, 0, 0.7);
    test_attention_window(9, 17, 8, 5, 0.7);
    test_attention_window(384, 384, 64, 100, 0);
    test_attention_window(300, 300, 128, 17, 0);
    test_attention_window(128, 384, 128, 200, 0);
    test_attention_window(130, 130, 64, 0, 2);
    test_attention_window(130, 130, 25, 40, 2);
}

void attention_end_cases(void)
{
    test_attention_ends(2, 9, 2, 1, 8, 0, 1, 0);
    test_attention_ends(2, 9, 2, 2, 8, 0, 0, 0);
    test_attention_ends(2, 9, 2, 2, 8, 1, 0, 0);
    test_attention_ends(1, 9, 2, 2, 8, 1, 1, 0);
    test_attention_ends(2, gpu_rows(128), 2, 2, 64, 0, 1, 0);
    test_attention_ends(2, gpu_rows(128), 4, 2, 64, 0, 0, 0);
    test_attention_ends(1, 400, 2, 2, 64, 0, 1, 0);
    test_attention_ends(1, gpu_rows(384), 2, 2, 64, 1, 1, 0);
    test_attention_ends(2, gpu_rows(200), 2, 2, 64, 0, 0, 0);
    test_attention_ends(2, gpu_rows(520), 4, 1, 64, 0, 1, 0);
    test_attention_ends(3, gpu_rows(300), 6, 2, 64, 0, 0, 0);
    test_attention_ends(1, gpu_rows(256), 2, 1, 128, 0, 1, 0);
    test_attention_ends(1, gpu_rows(130), 2, 2, 128, 1, 0, 0);
    test_attention_ends(1, gpu_rows(130), 2, 2, 25, 0, 1, 0);
    test_tiles(1, 128, 128, 2, 2, 64, 0, 1, 0);
    test_attention_ends(2, gpu_rows(128), 2, 2, 64, 0, 1, 0.25);
    test_attention_ends(2, gpu_rows(130), 2, 1, 64, 0, 0, 0.1);
}

/* Attention, on a sequence and on a cache, and its gradients. */
#include "device_test.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

struct attention_case {
    struct attention_shape shape;
    const double *q, *k, *v;
    const int32_t *start;
    const int64_t *row_index;
    uint32_t purpose;
    double *lse;
    const int32_t *positions;
};

static void attention_reference(void *context, double *out)
{
    const struct attention_case *c = context;
    const struct attention_shape *s = &c->shape;
    double *p = malloc((size_t)s->kv_rows * sizeof(double));

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                const double *q = c->q + b * s->q.batch + i * s->q.row + h * s->q.head;
                int64_t kv = b * s->kv.batch + h / (s->heads / s->kv_heads) * s->kv.head;
                int64_t last = s->cached   ? c->positions[b * s->q_rows + i]
                               : s->causal ? i + s->kv_rows - s->q_rows
                                           : s->kv_rows - 1;
                int64_t first = s->documents ? c->start[b * s->q_rows + i] : 0;
                int64_t row = c->row_index[b * s->q_rows + i];
                double sum = 0, *o = out + b * s->out.batch + i * s->out.row + h * s->out.head;

                for (int64_t j = first; j <= last; j++) {
                    p[j] = 0;
                    for (int64_t e = 0; e < s->head_size; e++)
                        p[j] += q[e] * c->k[kv + j * s->kv.row + e];
                    p[j] = exp(p[j] * s->scale);
                    sum += p[j];
                }
                if (c->lse)
                    c->lse[(b * s->heads + h) * s->q_rows + i] = log(sum);
                for (int64_t e = 0; e < s->head_size; e++)
                    o[e] = 0;
                for (int64_t j = first; j <= last; j++) {
                    uint64_t element =
                        (uint64_t)((((row / s->sequence) * s->all_heads + s->first_head + h) *
                                        s->sequence +
                                    row % s->sequence) *
                                       s->sequence +
                                   j);
                    double share = p[j] / sum * dropout_reference(s->dropout, c->purpose, element);

                    for (int64_t e = 0; e < s->head_size; e++)
                        o[e] += share * c->v[kv + j * s->kv.row + e];
                }
            }
    free(p);
}

/* A gradient laid out like its operand, and for each element what its rounding errors grow with. */
struct attention_gradient {
    double *v, *size;
};

/* Add 'factor' times 'x' to the row that begins at 'at'. Its errors are those of terms like
 * 'rough', each rounded by itself; the first element of 'size' gets the sum of their squares. */
static void add_term(struct attention_gradient *g, int64_t at, double factor, double rough,
                     const double *x, int64_t n)
{
    for (int64_t e = 0; e < n; e++)
        g->v[at + e] += factor * x[e];
    g->size[at] += rough * rough;
}

/* Size of the elements of each row, whose factors x are normal: hardly one is above 3. */
static void spread_size(double *size, struct attention_stride stride,
                        const struct attention_shape *s, int64_t heads, int64_t rows)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rows; i++) {
                double *row = size + b * stride.batch + i * stride.row + h * stride.head;

                for (int64_t e = s->head_size - 1; e >= 0; e--)
                    row[e] = 3 * sqrt(row[0]);
            }
}

/* Without dropout: dV = P^T dO, dS = P * (dO V^T - delta) * scale, dQ = dS K, dK = dS^T Q with
 * delta = sum(P * dO V^T) of a row. Adds to what is there. The error of delta is that of a product
 * of dO and normal numbers, also where delta itself is small. */
static void attention_gradient_reference(const struct attention_case *c, const double *dout,
                                         struct attention_gradient dq, struct attention_gradient dk,
                                         struct attention_gradient dv)
{
    const struct attention_shape *s = &c->shape;
    double *p = malloc((size_t)s->kv_rows * sizeof(double));
    double *dp = malloc((size_t)s->kv_rows * sizeof(double));

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                int64_t q_at = b * s->q.batch + i * s->q.row + h * s->q.head;
                int64_t kv = b * s->kv.batch + h / (s->heads / s->kv_heads) * s->kv.head;
                const double *dy = dout + b * s->out.batch + i * s->out.row + h * s->out.head;
                int64_t first = s->documents ? c->start[b * s->q_rows + i] : 0;
                int64_t last = s->causal ? i + s->kv_rows - s->q_rows : s->kv_rows - 1;
                double sum = 0, delta = 0, norm = 0;

                for (int64_t e = 0; e < s->head_size; e++)
                    norm += dy[e] * dy[e];
                norm = sqrt(norm);
                for (int64_t j = first; j <= last; j++) {
                    p[j] = dp[j] = 0;
                    for (int64_t e = 0; e < s->head_size; e++) {
                        p[j] += c->q[q_at + e] * c->k[kv + j * s->kv.row + e];
                        dp[j] += dy[e] * c->v[kv + j * s->kv.row + e];
                    }
                    p[j] = exp(p[j] * s->scale);
                    sum += p[j];
                    delta += p[j] * dp[j];
                }
                delta /= sum;
                for (int64_t j = first; j <= last; j++) {
                    int64_t at = kv + j * s->kv.row;
                    double share = p[j] / sum, ds = share * (dp[j] - delta) * s->scale;
                    double rough = share * (fabs(dp[j]) + norm) * s->scale;

                    add_term(&dq, q_at, ds, rough, c->k + at, s->head_size);
                    add_term(&dk, at, ds, rough, c->q + q_at, s->head_size);
                    add_term(&dv, at, share, share, dy, s->head_size);
                }
            }
    free(p), free(dp);
    spread_size(dq.size, s->q, s, s->heads, s->q_rows);
    spread_size(dk.size, s->kv, s, s->kv_heads, s->kv_rows);
    spread_size(dv.size, s->kv, s, s->kv_heads, s->kv_rows);
}

/* Compare the gradients with the reference: queries are the first 'k_at' of 'width' columns of dq,
 * keys and values the others of dkv. What is not theirs stays as it was. */
static void attention_gradients_agree(const struct attention_case *c, const double *dout,
                                      const struct tensor *dq, const struct tensor *dkv,
                                      int64_t width, size_t k_at, size_t v_at)
{
    struct attention_gradient q = {malloc((size_t)dq->n * sizeof(double)),
                                   calloc((size_t)dq->n, sizeof(double))};
    struct attention_gradient kv = {malloc((size_t)dkv->n * sizeof(double)),
                                    calloc((size_t)dkv->n, sizeof(double))};

    for (int64_t i = 0; i < dq->n; i++)
        q.v[i] = i % width < (int64_t)k_at ? 0 : dq->v[i];
    for (int64_t i = 0; i < dkv->n; i++)
        kv.v[i] = i % width < (int64_t)k_at ? dkv->v[i] : 0;
    attention_gradient_reference(c, dout, q,
                                 (struct attention_gradient){kv.v + k_at, kv.size + k_at},
                                 (struct attention_gradient){kv.v + v_at, kv.size + v_at});
    agree_each(dq, q.v, q.size, "gradient of the queries, row by row");
    agree_each(dkv, kv.v, kv.size, "gradient of keys and values, row by row");
    free(q.v), free(q.size), free(kv.v), free(kv.size);
}

/* The device is deterministic: a second run, over the results of the first, gives the same bits. */
static void attention_repeats(struct device_plan *forward,
                              const struct attention_operands *operands, const struct tensor *out,
                              const struct tensor *lse)
{
    double *o = download(out), *sums = download(lse), *o_again, *sums_again;

    run_attention(forward, stream, operands);
    o_again = download(out);
    sums_again = download(lse);
    ok(memcmp(o, o_again, (size_t)out->n * sizeof(*o)) == 0 &&
           memcmp(sums, sums_again, (size_t)lse->n * sizeof(*sums)) == 0,
       "attention repeats to the bit");
    free(o), free(sums), free(o_again), free(sums_again);
}

/* And so does its gradient. */
static void attention_gradients_repeat(struct device_plan *backward,
                                       const struct attention_backward_operands *operands,
                                       const struct tensor *dq, const struct tensor *dkv)
{
    double *q = download(dq), *kv = download(dkv), *q_again, *kv_again;

    run_attention_backward(backward, stream, operands);
    q_again = download(dq);
    kv_again = download(dkv);
    ok(memcmp(q, q_again, (size_t)dq->n * sizeof(*q)) == 0 &&
           memcmp(kv, kv_again, (size_t)dkv->n * sizeof(*kv)) == 0,
       "the gradient of attention repeats to the bit");
    free(q), free(kv), free(q_again), free(kv_again);
}

/* Where the document of a position of sample 'b' begins. */
static int64_t document_of(int64_t b, int64_t position)
{
    static const int64_t starts[] = {2, 5, 70, 71, 140, 330, 395};
    int64_t found = 0;

    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
        if (starts[i] + 3 * b <= position)
            found = starts[i] + 3 * b;
    return found;
}

/* Queries, keys and values side by side. */
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

static void check_attention(struct attention_shape s)
{
    int64_t batch = s.batch, q_rows = s.q_rows, kv_rows = s.kv_rows, width = s.q.row;
    int64_t heads = s.heads, kv_heads = s.kv_heads, size = s.head_size;
    struct operation op = {.kind = OPERATION_ATTENTION, .attention = s};
    struct tensor q = tensor(batch * q_rows * width, 1), kv = tensor(batch * kv_rows * width, 1);
    struct tensor out = tensor(batch * q_rows * heads * size, 9);
    struct tensor dout = tensor(batch * q_rows * heads * size, 1);
    struct tensor dq = tensor(batch * q_rows * width, 9), dkv = tensor(batch * kv_rows * width, 9);
    struct tensor lse = tensor_as(TYPE_FP32, batch * heads * q_rows, 9, 0);
    int64_t *rows = malloc((size_t)(batch * q_rows) * sizeof(*rows)), *rows_d;
    int32_t *start = malloc((size_t)(batch * q_rows) * sizeof(*start)), *start_d;
    struct step_state *state = state_on_device();
    size_t k_at = (size_t)(heads * size), v_at = (size_t)((heads + kv_heads) * size);
    size_t element = type_size(type);
    double *expected = malloc((size_t)out.n * sizeof(double)), *sums, *grad;
    struct attention_operands forward_operands;
    struct attention_backward_operands operands;
    struct attention_case c = {s, q.v, kv.v + k_at, kv.v + v_at, start, rows, 0x20001, NULL, NULL};
    struct probe probe = {attention_reference, &c, dout.v, out.n};
    struct device_plan *forward = plan(&op), *backward;

    sums = malloc((size_t)lse.n * sizeof(double));
    for (int64_t i = 0; i < batch * q_rows; i++) {
        int64_t position = i % q_rows + kv_rows - q_rows;

        rows[i] = (3 + i / q_rows) * kv_rows + position;
        start[i] = (int32_t)document_of(i / q_rows, position);
    }
    rows_d = upload(rows, (size_t)(batch * q_rows) * sizeof(*rows));
    start_d = upload(start, (size_t)(batch * q_rows) * sizeof(*start));
    forward_operands = (struct attention_operands){q.d,
                                                   (char *)kv.d + k_at * element,
                                                   (char *)kv.d + v_at * element,
                                                   out.d,
                                                   lse.d,
                                                   start_d,
                                                   rows_d,
                                                   state,
                                                   0x20001,
                                                   NULL};
    run_attention(forward, stream, &forward_operands);
    c.lse = sums;
    attention_reference(&c, expected);
    c.lse = NULL;
    agree(&out, expected, "attention");
    agree_closely(&lse, sums, "attention, log-sum-exp");
    attention_repeats(forward, &forward_operands, &out, &lse);
    op.kind = OPERATION_ATTENTION_BACKWARD;
    backward = plan(&op);
    operands = (struct attention_backward_operands){q.d,
                                                    (char *)kv.d + k_at * element,
                                                    (char *)kv.d + v_at * element,
                                                    out.d,
                                                    dout.d,
                                                    lse.d,
                                                    dq.d,
                                                    (char *)dkv.d + k_at * element,
                                                    (char *)dkv.d + v_at * element,
                                                    start_d,
                                                    rows_d,
                                                    state,
                                                    0x20001};
    run_attention_backward(backward, stream, &operands);
    if (s.dropout == 0)
        attention_gradients_agree(&c, dout.v, &dq, &dkv, width, k_at, v_at);
    /* Only the queries of q and only the keys and values of kv take part; the rest stays as it was.
     */
    if (q.n <= FEW && kv.n <= FEW) {
        grad = difference(&probe, q.v, q.n);
        for (int64_t i = 0; i < q.n; i++)
            if (i % width >= (int64_t)k_at)
                grad[i] = dq.v[i];
        agree(&dq, grad, "gradient of the queries");
        free(grad);
        grad = difference(&probe, kv.v, kv.n);
        for (int64_t i = 0; i < kv.n; i++)
            if (i % width < (int64_t)k_at)
                grad[i] = dkv.v[i];
        agree(&dkv, grad, "gradient of keys and values");
        free(grad);
    }
    attention_gradients_repeat(backward, &operands, &dq, &dkv);
    plan_destroy(forward), plan_destroy(backward);
    free(rows), free(start), free(expected), free(sums);
    device_release(device, rows_d), device_release(device, start_d), device_release(device, state);
    tensor_free(&q), tensor_free(&kv), tensor_free(&out), tensor_free(&dout), tensor_free(&dq);
    tensor_free(&dkv), tensor_free(&lse);
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

/* Scores so far apart that where a row's greatest one grows from one tile to the next, what was
 * added up before all but vanishes. */
static void test_attention_sharp(int64_t rows, int causal)
{
    struct attention_shape s = shape_of(1, rows, rows, 2, 1, 64, causal);

    s.scale *= 10;
    check_attention(s);
}

/* Queries anywhere on a cache of 'places', whose keys and values lie side by side. */
static void test_attention_cached(int64_t batch, int64_t q_rows, int64_t places, int64_t heads,
                                  int64_t kv_heads, int64_t size)
{
    int64_t width = (heads + 2 * kv_heads) * size, kv_width = 2 * kv_heads * size;
    int64_t room = places + 3; /* a cache is longer than what a plan looks at */
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
    int64_t *rows = calloc((size_t)(batch * q_rows), sizeof(*rows)), v_at = kv_heads * size;
    int32_t *positions = malloc((size_t)(batch * q_rows) * sizeof(*positions)), *positions_d;
    double *expected = malloc((size_t)out.n * sizeof(double));
    double *sums = malloc((size_t)lse.n * sizeof(double));
    struct attention_case c = {s, q.v, kv.v, kv.v + v_at, NULL, rows, 0, sums, positions};
    struct device_plan *forward = plan(&op);

    /* Each sample is somewhere else; the last query of a sample is padding. */
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
    free(rows), free(positions), free(expected), free(sums);
    device_release(device, positions_d);
    tensor_free(&q), tensor_free(&kv), tensor_free(&out), tensor_free(&lse);
}

void attention_cases(void)
{
    test_attention(2, 6, 6, 2, 2, 8, 1, 0, 0);
    test_attention(1, 9, 9, 4, 2, 8, 1, 1, 0);
    test_attention(2, 4, 8, 4, 1, 16, 1, 0, 0);
    test_attention(1, 7, 7, 2, 2, 8, 0, 0, 0);
    /* Heads of 64, for kernels that work in tiles of 64 or 128 rows: started and whole ones, one
     * and several, those without a key that is seen, and more of them than a GPU has processors. */
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
    /* The small probabilities, and what is multiplied by them, are below what fp16 holds. */
    if (type != TYPE_FP16) {
        test_attention_sharp(1030, 1);
        test_attention_sharp(390, 0);
    }
    if (type == TYPE_FP32)
        test_attention(2, 9, 9, 2, 1, 8, 1, 0, 0.25);
    test_attention_cached(3, 1, 16, 4, 4, 8);
    test_attention_cached(3, 1, 16, 4, 1, 16);
    test_attention_cached(2, 7, 24, 4, 2, 8);
    test_attention_cached(1, 150, 160, 2, 1, 8);
    /* Heads of odd sizes, which begin anywhere; in rows that are aligned all the same (of 8 times
     * their size), and in odd ones. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax attention. A block of queries is multiplied with all keys it can see, followed by a
 * softmax over whole rows and a second product. The backward pass recomputes the probabilities from
 * the log-sum-exp. */
#include "cpu.h"
#include "gemm.h"
#include "math.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct attention {
    const struct attention_shape *shape;
    struct attention_operands o;
    const float *dout;
    float *dq, *dk, *dv;
    int64_t block; /* queries at a time */
    float *workspace;
    int64_t workspace_floats; /* per part */
    void (*job)(struct attention *a, int64_t i, float *workspace, void *space);
    char *gemm_space; /* gemm_workspace_bytes per part */
    int64_t jobs;
    atomic_int_fast64_t next;
};

/* One past the last key that 'query' of sample 'batch' sees. */
static int64_t visible_end(const struct attention *a, int64_t batch, int64_t query)
{
    const struct attention_shape *s = a->shape;
    int64_t end = s->causal ? query + s->kv_rows - s->q_rows + 1 : s->kv_rows;

    if (s->cached)
        return a->o.positions[batch * s->q_rows + query] + 1;
    if (s->ends && a->o.document_end[batch * s->q_rows + query] < end)
        return a->o.document_end[batch * s->q_rows + query];
    return end;
}

/* Queries 'first' .. 'first + rows - 1' of one head; all keys that they see are below 'keys'. */
struct block {
    int64_t batch, head, first, rows, keys;
    const float *q, *k, *v;
};

static struct block block_at(const struct attention *a, int64_t batch, int64_t head, int64_t first)
{
    const struct attention_shape *s = a->shape;
    int64_t kv_head = head / (s->heads / s->kv_heads);
    int64_t kv = batch * s->kv.batch + kv_head * s->kv.head;
    struct block b = {batch, head, first, a->block, 0, NULL, NULL, NULL};

    if (b.first + b.rows > s->q_rows)
        b.rows = s->q_rows - b.first;
    for (int64_t row = 0; row < b.rows; row++)
        if (visible_end(a, batch, first + row) > b.keys)
            b.keys = visible_end(a, batch, first + row);
    b.q = (const float *)a->o.q + batch * s->q.batch + head * s->q.head + first * s->q.row;
    b.k = (const float *)a->o.k + kv;
    b.v = (const float *)a->o.v + kv;
    return b;
}

/* The keys [from, to) that query 'row' of the block sees. */
static void visible(const struct attention *a, const struct block *b, int64_t row, int64_t *from,
                    int64_t *to)
{
    const struct attention_shape *s = a->shape;
    int64_t query = b->first + row;

    *from = s->documents ? a->o.document_start[b->batch * s->q_rows + query] : 0;
    *to = visible_end(a, b->batch, query);
    /* A query without keys is invalid, but must not write outside its row. */
    *from = *from < *to ? *from : *to;
}

/* p (rows, keys) = scale * q k^T, capped */
static void scores(const struct attention *a, const struct block *b, float *p, void *space)
{
    const struct attention_shape *s = a->shape;

    gemm(0, 1, b->rows, b->keys, s->head_size, (float)s->scale, b->q, s->q.row, b->k, s->kv.row, 0,
         p, b->keys, space);
    for (int64_t i = 0; i < b->rows * b->keys && s->softcap > 0; i++)
        p[i] = (float)s->softcap * tanhf(p[i] / (float)s->softcap);
}

/* The gradient of the scores before the cap, from that of the 'capped' ones. */
static void uncap(const struct attention_shape *s, const float *capped, float *d, int64_t count)
{
    float by = 1 / (float)s->softcap;

    for (int64_t i = 0; i < count; i++)
        d[i] *= 1 - capped[i] * by * (capped[i] * by);
}

/* Multiply the probabilities p of one query (keys from .. to-1) by the dropout mask. */
static void drop(const struct attention *a, const struct block *b, int64_t row, float *p,
                 int64_t from, int64_t to)
{
    const struct attention_shape *s = a->shape;
    uint32_t threshold = dropout_threshold(s->dropout);
    float scale = dropout_scale(s->dropout);
    int64_t index = a->o.row_index[b->batch * s->q_rows + b->first + row];
    int64_t sample = index / s->sequence, query = index % s->sequence;
    uint64_t first =
        (uint64_t)(((sample * s->all_heads + s->first_head + b->head) * s->sequence + query) *
                   s->sequence);
    struct rng_block numbers = {{0, 0, 0, 0}};

    for (int64_t key = from; key < to; key++) {
        uint64_t element = first + (uint64_t)key;

        if (key == from || element % 8 == 0)
            numbers = rng_philox(a->o.state->seed, element / 8, a->o.purpose,
                                 (uint32_t)a->o.state->iteration);
        p[key] = rng_dropout_lane(numbers, element) < threshold ? 0.0f : p[key] * scale;
    }
}

/* Turn the scores of one query into probabilities; returns the log-sum-exp. */
CPU_CLONES static float softmax_row(float *p, int64_t from, int64_t to, int64_t keys)
{
    float max = vector_max(p + from, to - from, -INFINITY), sum;

    memset(p, 0, (size_t)from * sizeof(*p));
    for (int64_t i = from; i < to; i++)
        p[i] = fast_exp_to_88(p[i] - max);
    memset(p + to, 0, (size_t)(keys - to) * sizeof(*p));
    sum = vector_sum(p + from, to - from);
    for (int64_t i = from; i < to; i++)
        p[i] *= 1.0f / sum;
    return max + logf(sum);
}

static void forward_block(struct attention *a, int64_t i, float *p, void *space)
{
    const struct attention_shape *s = a->shape;
    int64_t blocks = (s->q_rows + a->block - 1) / a->block;
    /* The longest blocks first, so that the threads finish together. */
    int64_t number = blocks - 1 - i / (s->batch * s->heads), pair = i % (s->batch * s->heads);
    struct block b = block_at(a, pair / s->heads, pair % s->heads, number * a->block);

    scores(a, &b, p, space);
    for (int64_t row = 0; row < b.rows; row++) {
        int64_t from, to;

        visible(a, &b, row, &from, &to);
        a->o.lse[pair * s->q_rows + b.first + row] =
            softmax_row(p + row * b.keys, from, to, b.keys);
        if (s->dropout > 0)
            drop(a, &b, row, p + row * b.keys, from, to);
    }
    gemm(0, 0, b.rows, s->head_size, b.keys, 1, p, b.keys, b.v, s->kv.row, 0,
         (float *)a->o.out + b.batch * s->out.batch + b.head * s->out.head + b.first * s->out.row,
         s->out.row, space);
}

/* Compute the probabilities of one query from its scores: p and, with dropout, 'dropped'. */
CPU_CLONES static void remake_row(const struct attention *a, const struct block *b, int64_t row,
                                  float *p, float *dropped)
{
    const struct attention_shape *s = a->shape;
    float lse = a->o.lse[(b->batch * s->heads + b->head) * s->q_rows + b->first + row];
    int64_t from, to;

    visible(a, b, row, &from, &to);
    memset(p, 0, (size_t)from * sizeof(*p));
    for (int64_t i = from; i < to; i++)
        p[i] = fast_exp_to_88(p[i] - lse);
    memset(p + to, 0, (size_t)(b->keys - to) * sizeof(*p));
    if (s->dropout > 0) {
        memcpy(dropped, p, (size_t)b->keys * sizeof(*p));
        drop(a, b, row, dropped, from, to);
    }
}

/* Gradients of one block of queries: dq, and its share of dk and dv. */
CPU_CLONES static void backward_block(const struct attention *a, const struct block *b, float *p,
                                      float *dp, float *dropped, float *capped, void *space)
{
    const struct attention_shape *s = a->shape;
    int64_t at = b->batch * s->out.batch + b->head * s->out.head + b->first * s->out.row;
    const float *dout = a->dout + at, *out = (const float *)a->o.out + at;
    int64_t kv_head = b->head / (s->heads / s->kv_heads);
    int64_t kv = b->batch * s->kv.batch + kv_head * s->kv.head;
    const float *met_v = s->dropout > 0 ? dropped : p;
    int64_t rows = b->rows, keys = b->keys, size = s->head_size;

    scores(a, b, p, space);
    if (s->softcap > 0)
        memcpy(capped, p, (size_t)(rows * keys) * sizeof(*p));
    for (int64_t row = 0; row < b->rows; row++)
        remake_row(a, b, row, p + row * b->keys, dropped + row * b->keys);
    gemm(1, 0, keys, size, rows, 1, met_v, keys, dout, s->out.row, 1, a->dv + kv, s->kv.row, space);
    gemm(0, 1, rows, keys, size, 1, dout, s->out.row, b->v, s->kv.row, 0, dp, keys, space);
    for (int64_t row = 0; row < b->rows; row++) {
        float *d = dp + row * b->keys, *probability = p + row * b->keys;
        float mean = vector_dot(dout + row * s->out.row, out + row * s->out.row, s->head_size);

        if (s->dropout > 0) {
            /* The mask applies to dp too, and 'dropped' is p times the mask. */
            const float *masked = dropped + row * b->keys;

            for (int64_t i = 0; i < b->keys; i++)
                d[i] = masked[i] * d[i] - probability[i] * mean;
        } else {
            for (int64_t i = 0; i < b->keys; i++)
                d[i] = probability[i] * (d[i] - mean);
        }
    }
    if (s->softcap > 0)
        uncap(s, capped, dp, rows * keys);
    gemm(0, 0, rows, size, keys, (float)s->scale, dp, keys, b->k, s->kv.row, 0,
         a->dq + b->batch * s->q.batch + b->head * s->q.head + b->first * s->q.row, s->q.row,
         space);
    gemm(1, 0, keys, size, rows, (float)s->scale, dp, keys, b->q, s->q.row, 1, a->dk + kv,
         s->kv.row, space);
}

/* Process all queries that use one key head, in order. */
static void backward_head(struct attention *a, int64_t i, float *workspace, void *space)
{
    const struct attention_shape *s = a->shape;
    int64_t batch = i / s->kv_heads, kv_head = i % s->kv_heads, group = s->heads / s->kv_heads;
    int64_t kv = batch * s->kv.batch + kv_head * s->kv.head, square = a->block * s->kv_rows;

    for (int64_t row = 0; row < s->kv_rows; row++) {
        memset(a->dk + kv + row * s->kv.row, 0, (size_t)s->head_size * sizeof(float));
        memset(a->dv + kv + row * s->kv.row, 0, (size_t)s->head_size * sizeof(float));
    }
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t first = 0; first < s->q_rows; first += a->block) {
            struct block b = block_at(a, batch, head, first);

            backward_block(a, &b, workspace, workspace + square, workspace + 2 * square,
                           workspace + 3 * square, space);
        }
}

/* Each part has its own workspace and takes jobs until none is left. */
static void attention_part(void *context, int64_t part)
{
    struct attention *a = context;
    float *workspace = a->workspace + part * a->workspace_floats;
    int64_t i;

    while ((i = atomic_fetch_add(&a->next, 1)) < a->jobs)
        a->job(a, i, workspace, a->gemm_space + (size_t)part * gemm_workspace_bytes);
}

/* Block size in queries: the scores of a block should fit into a core's cache. */
static int64_t block_rows(const struct attention_shape *shape)
{
    int64_t rows = 131072 / shape->kv_rows;

    rows = rows < 16 ? 16 : rows > 128 ? 128 : rows;
    return rows < shape->q_rows ? rows : shape->q_rows;
}

/* Squares of scores that a part keeps at once. */
static int64_t squares(const struct attention_shape *shape)
{
    return shape->softcap > 0 ? 4 : 3;
}

static void attention_run(struct cpu_plan *plan, struct attention *a)
{
    int64_t parts = threads_count(plan->threads);

    a->shape = &plan->operation.attention;
    a->block = block_rows(a->shape);
    a->workspace = plan->workspace;
    a->workspace_floats = squares(a->shape) * a->block * a->shape->kv_rows;
    a->gemm_space = plan->product_space;
    atomic_init(&a->next, 0);
    threads_run(plan->threads, parts, attention_part, a);
}

static void work_forward(struct cpu_plan *plan, const void *operands)
{
    const struct attention_shape *s = &plan->operation.attention;
    struct attention a = {.job = forward_block};

    a.o = *(const struct attention_operands *)operands;
    a.jobs = s->batch * s->heads * ((s->q_rows + block_rows(s) - 1) / block_rows(s));
    attention_run(plan, &a);
}

static void work_backward(struct cpu_plan *plan, const void *operands)
{
    const struct attention_backward_operands *b = operands;
    const struct attention_shape *s = &plan->operation.attention;
    struct attention a = {
        .o = {.q = b->q,
              .k = b->k,
              .v = b->v,
              .out = (void *)b->out,
              .lse = (float *)b->lse,
              .document_start = b->document_start,
              .row_index = b->row_index,
              .state = b->state,
              .purpose = b->purpose,
              .document_end = b->document_end},
        .dout = b->dout,
        .dq = b->dq,
        .dk = b->dk,
        .dv = b->dv,
        .job = backward_head,
        .jobs = s->batch * s->kv_heads,
    };

    attention_run(plan, &a);
}

int cpu_plan_attention(struct cpu_plan *plan, struct error *err)
{
    const struct attention_shape *s = &plan->operation.attention;
    size_t floats = (size_t)(squares(s) * block_rows(s) * s->kv_rows), parts;

    if (s->type != TYPE_FP32)
        return cpu_refuse_type(err);
    if (s->kv_rows < s->q_rows || s->heads % s->kv_heads != 0)
        return error_bug(
            err, "attention of %lld queries on %lld keys, %lld heads on %lld, is not supported",
            (long long)s->q_rows, (long long)s->kv_rows, (long long)s->heads,
            (long long)s->kv_heads);
    if (s->cached &&
        (plan->operation.kind != OPERATION_ATTENTION || !s->causal || s->ends || s->dropout > 0))
        return error_bug(err,
                         "attention on a KV cache must be causal, forward, without dropout and "
                         "without document ends");
    plan->work = plan->operation.kind == OPERATION_ATTENTION ? work_forward : work_backward;
    parts = (size_t)threads_count(plan->threads);
    return cpu_workspace(plan, parts * floats * sizeof(float), err);
}

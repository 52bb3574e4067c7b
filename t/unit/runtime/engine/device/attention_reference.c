/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient in double precision. */
#include "device_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One query of one head, and the keys first .. last that it sees. */
struct query {
    int64_t q, out, kv; /* offsets of its row of q, its row of out, and the head's keys */
    int64_t first, last;
    int64_t number; /* index among all queries and heads, as in lse */
};

static struct query query_at(const struct attention_case *c, int64_t b, int64_t h, int64_t i)
{
    const struct attention_shape *s = &c->shape;
    int64_t last = s->cached   ? c->positions[b * s->q_rows + i]
                   : s->causal ? i + s->kv_rows - s->q_rows
                               : s->kv_rows - 1;

    if (s->ends && c->end[b * s->q_rows + i] - 1 < last)
        last = c->end[b * s->q_rows + i] - 1;
    return (struct query){
        .q = b * s->q.batch + i * s->q.row + h * s->q.head,
        .out = b * s->out.batch + i * s->out.row + h * s->out.head,
        .kv = b * s->kv.batch + h / (s->heads / s->kv_heads) * s->kv.head,
        .first = s->documents ? c->start[b * s->q_rows + i] : 0,
        .last = last,
        .number = (b * s->heads + h) * s->q_rows + i,
    };
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The score of key 'j', capped. */
static double score_of(const struct attention_case *c, const struct query *at, int64_t j)
{
    const struct attention_shape *s = &c->shape;
    double score = s->scale * dot(c->q + at->q, c->k + at->kv + j * s->kv.row, s->head_size);

    return s->softcap > 0 ? s->softcap * tanh(score / s->softcap) : score;
}

/* Its derivative by the score before the cap. */
static double slope_of(const struct attention_case *c, const struct query *at, int64_t j)
{
    double part = c->shape.softcap > 0 ? score_of(c, at, j) / c->shape.softcap : 0;

    return 1 - part * part;
}

/* The probabilities of the keys it sees, before dropout; returns the log-sum-exp. */
static double softmax_of(const struct attention_case *c, const struct query *at, double *p)
{
    double sum = 0;

    for (int64_t j = at->first; j <= at->last; j++) {
        p[j] = exp(score_of(c, at, j));
        sum += p[j];
    }
    for (int64_t j = at->first; j <= at->last; j++)
        p[j] /= sum;
    return log(sum);
}

/* The factors of its probabilities; NULL: none. */
static const double *kept_of(const struct attention_case *c, const struct query *at)
{
    return c->keep ? c->keep + at->number * c->shape.kv_rows : NULL;
}

int64_t attention_scores(const struct attention_shape *shape)
{
    return shape->batch * shape->heads * shape->q_rows * shape->kv_rows;
}

void attention_probabilities(const struct attention_case *c, double *p)
{
    const struct attention_shape *s = &c->shape;

    memset(p, 0, (size_t)attention_scores(s) * sizeof(*p));
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                struct query at = query_at(c, b, h, i);

                softmax_of(c, &at, p + at.number * s->kv_rows);
            }
}

void attention_reference(void *context, double *out)
{
    const struct attention_case *c = context;
    const struct attention_shape *s = &c->shape;
    double *p = malloc((size_t)s->kv_rows * sizeof(double));

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                struct query at = query_at(c, b, h, i);
                const double *keep = kept_of(c, &at);
                double lse = softmax_of(c, &at, p), *o = out + at.out;

                if (c->lse)
                    c->lse[at.number] = lse;
                memset(o, 0, (size_t)s->head_size * sizeof(*o));
                for (int64_t j = at.first; j <= at.last; j++) {
                    double share = p[j] * (keep ? keep[j] : 1);

                    for (int64_t e = 0; e < s->head_size; e++)
                        o[e] += share * c->v[at.kv + j * s->kv.row + e];
                }
            }
    free(p);
}

/* Add 'factor' times 'x' to the row that starts at 'at'. Its errors are those of terms like
 * 'rough', each rounded separately; the first element of 'size' gets the sum of their squares. */
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

/* dP = M * dO V^T, where M is the dropout mask; returns the length of dO, with which the error of
 * its products with normal numbers grows, even if these are small. */
static double gradient_of(const struct attention_case *c, const struct query *at, const double *dy,
                          double *dp)
{
    const struct attention_shape *s = &c->shape;
    const double *keep = kept_of(c, at);

    for (int64_t j = at->first; j <= at->last; j++)
        dp[j] = (keep ? keep[j] : 1) * dot(dy, c->v + at->kv + j * s->kv.row, s->head_size);
    return sqrt(dot(dy, dy, s->head_size));
}

/* dV = (P * M)^T dO, dS = P * (dP - delta) * scale, dQ = dS K, dK = dS^T Q with delta = sum(P * dP)
 * of a row. */
void attention_gradient_reference(const struct attention_case *c, const double *dout,
                                  struct attention_gradient dq, struct attention_gradient dk,
                                  struct attention_gradient dv)
{
    const struct attention_shape *s = &c->shape;
    double *p = malloc((size_t)s->kv_rows * sizeof(double));
    double *dp = malloc((size_t)s->kv_rows * sizeof(double)), least = least_of(type);

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                struct query at = query_at(c, b, h, i);
                const double *dy = dout + at.out, *keep = kept_of(c, &at);
                double norm = gradient_of(c, &at, dy, dp), delta = 0;

                softmax_of(c, &at, p);
                for (int64_t j = at.first; j <= at.last; j++)
                    delta += p[j] * dp[j];
                for (int64_t j = at.first; j <= at.last; j++) {
                    int64_t row = at.kv + j * s->kv.row;
                    double ds = p[j] * (dp[j] - delta) * s->scale * slope_of(c, &at, j);
                    double rough = fmax(p[j] * (fabs(dp[j]) + norm) * s->scale, least);
                    double share = p[j] * (keep ? keep[j] : 1);

                    add_term(&dq, at.q, ds, rough, c->k + row, s->head_size);
                    add_term(&dk, row, ds, rough, c->q + at.q, s->head_size);
                    add_term(&dv, row, share, fmax(share, least), dy, s->head_size);
                }
            }
    free(p), free(dp);
    spread_size(dq.size, s->q, s, s->heads, s->q_rows);
    spread_size(dk.size, s->kv, s, s->kv_heads, s->kv_rows);
    spread_size(dv.size, s->kv, s, s->kv_heads, s->kv_rows);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdlib.h>

/* How the next token is chosen. */
enum rule {
    RULE_GREEDY, /* the largest logit */
    RULE_RACE,   /* sample from all tokens; each rank only needs its own best score */
    RULE_LIST,   /* sample from some tokens; all logits are needed to know which */
};

static enum rule rule_of(const struct sampling *s)
{
    if (s->temperature == 0 || s->top_k == 1)
        return RULE_GREEDY;
    return s->top_k > 0 || (s->top_p > 0 && s->top_p < 1) ? RULE_LIST : RULE_RACE;
}

int64_t sampler_width(const struct sampling *s, int64_t columns)
{
    if (rule_of(s) != RULE_LIST)
        return 1;
    return s->top_k > 0 && s->top_k < columns ? s->top_k : columns;
}

/* A random number in (0, 1) for one token at one position. */
static double uniform(const struct sampling *s, uint64_t text, int64_t position, int64_t id)
{
    uint64_t bits = rng_bits(s->seed, RNG_SAMPLING, (uint32_t)position, text << 32 | (uint64_t)id);

    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* A token's score in the Gumbel-max trick if it is better than 'best', otherwise 'best'. With x =
 * logit / T the score is x - log(-log(u)); because -log(u) >= 1 - u, most tokens are rejected
 * without computing a logarithm. */
static double race(const struct sampling *s, double logit, double best, uint64_t text,
                   int64_t position, int64_t id)
{
    double x = logit / s->temperature, u = uniform(s, text, position, id), result;

    if ((1 - u) > exp(x - best) * 1.000001)
        return best;
    result = x - log(-log(u));
    return result > best ? result : best;
}

static int before(const struct candidate *a, const struct candidate *b)
{
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

static int compare(const void *a, const void *b)
{
    return before(a, b) ? -1 : before(b, a) ? 1 : 0;
}

/* Sift element 'i' down a heap of 'count' candidates whose top is the last in the order of
 * before(). */
static void sink(struct candidate *heap, int64_t count, int64_t i)
{
    for (;;) {
        int64_t last = i;
        struct candidate swap = heap[i];

        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++)
            if (before(&heap[last], &heap[child]))
                last = child;
        if (last == i)
            return;
        heap[i] = heap[last];
        heap[last] = swap;
        i = last;
    }
}

/* The 'width' largest logits, in any order. */
static void offer_list(const float *logits, int64_t count, int64_t first, struct candidate *out,
                       int64_t width)
{
    int64_t used = 0;

    for (int64_t i = 0; i < count; i++) {
        struct candidate c = {logits[i], (double)(first + i)};

        if (isnan(c.key))
            continue;
        if (used < width) {
            out[used++] = c;
            for (int64_t k = width / 2 - 1; used == width && k >= 0; k--)
                sink(out, width, k);
        } else if (before(&c, &out[0])) {
            out[0] = c;
            sink(out, width, 0);
        }
    }
}

void sampler_offer(const struct sampling *s, const float *logits, int64_t count, int64_t first,
                   uint64_t text, int64_t position, struct candidate *out, int64_t width)
{
    enum rule rule = rule_of(s);

    for (int64_t i = 0; i < width; i++)
        out[i] = (struct candidate){-INFINITY, -1};
    if (rule == RULE_LIST) {
        offer_list(logits, count, first, out, width);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double key = rule == RULE_GREEDY ? (double)logits[i]
                                         : race(s, logits[i], out->key, text, position, first + i);

        if (key > out->key)
            *out = (struct candidate){key, (double)(first + i)};
    }
}

/* Apply top-p to candidates with probabilities exp(x - largest) / total. Those with a probability
 * below (1 - p) / count sum to less than 1 - p: dropping them first leaves enough, and little to
 * sort. */
static int64_t keep_nucleus(const struct sampling *s, struct candidate *c, int64_t count)
{
    double largest = -INFINITY, total = 0, mass = 0;
    int64_t kept = 0;

    for (int64_t i = 0; i < count; i++)
        largest = c[i].key > largest ? c[i].key : largest;
    for (int64_t i = 0; i < count; i++)
        total += exp((c[i].key - largest) / s->temperature);
    for (int64_t i = 0; i < count; i++)
        if (exp((c[i].key - largest) / s->temperature) >= (1 - s->top_p) / (double)count * total)
            c[kept++] = c[i];
    qsort(c, (size_t)kept, sizeof(*c), compare);
    for (int64_t i = 0; i < kept; i++) {
        mass += exp((c[i].key - largest) / s->temperature);
        if (mass >= s->top_p * total)
            return i + 1;
    }
    return kept;
}

int64_t sampler_pick(const struct sampling *s, struct candidate *c, int64_t count, uint64_t text,
                     int64_t position)
{
    struct candidate best = {-INFINITY, -1};
    int64_t there = 0;

    for (int64_t i = 0; i < count; i++)
        if (c[i].id >= 0)
            c[there++] = c[i];
    if (rule_of(s) != RULE_LIST) {
        for (int64_t i = 0; i < there; i++)
            if (before(&c[i], &best))
                best = c[i];
        return (int64_t)best.id;
    }
    if (s->top_k > 0 && s->top_k < there) {
        qsort(c, (size_t)there, sizeof(*c), compare);
        there = s->top_k;
    }
    if (s->top_p > 0 && s->top_p < 1)
        there = keep_nucleus(s, c, there);
    for (int64_t i = 0; i < there; i++) {
        double key = race(s, c[i].key, best.key, text, position, (int64_t)c[i].id);

        if (key > best.key)
            best = (struct candidate){key, c[i].id};
    }
    return (int64_t)best.id;
}

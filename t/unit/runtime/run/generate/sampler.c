/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler: what it may draw, how often it draws it, and that dividing the vocabulary over ranks
 * changes nothing. */
#include "tap.h"
#include "run/generate/sampler.h"

#include <math.h>
#include <stdlib.h>

enum { TOKENS = 12, DRAWS = 20000 };

static const float logits[TOKENS] = {1.5f, -2, 0.25f, 3, 2.75f, -1, 0, 2.75f, -40, 1, 0.5f, 2};

/* Draw with the vocabulary divided into 'ranks' parts. */
static int64_t draw(const struct sampling *s, const float *from, int64_t count, int64_t ranks,
                    uint64_t text, int64_t position)
{
    int64_t columns = (count + ranks - 1) / ranks, width = sampler_width(s, columns), id;
    struct candidate *all = calloc((size_t)(ranks * width), sizeof(*all));

    for (int64_t r = 0; r < ranks; r++) {
        int64_t first = r * columns, left = count - first;

        sampler_offer(s, from + (left > 0 ? first : 0),
                      left < 0         ? 0
                      : left < columns ? left
                                       : columns,
                      first, text, position, all + r * width, width);
    }
    id = sampler_pick(s, all, ranks * width, text, position);
    free(all);
    return id;
}

/* The probabilities that remain with the settings, by a sort that shares no code with the sampler.
 */
static void expected(const struct sampling *s, double *p)
{
    int rank[TOKENS], taken = 0;
    double total = 0, mass = 0, whole = 0;

    for (int i = 0; i < TOKENS; i++) {
        rank[i] = 0;
        for (int j = 0; j < TOKENS; j++)
            rank[i] += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        p[i] = s->top_k > 0 && rank[i] >= s->top_k ? 0 : exp((double)logits[i] / s->temperature);
        whole += p[i];
    }
    for (int place = 0; place < TOKENS; place++)
        for (int i = 0; i < TOKENS; i++) {
            if (rank[i] != place)
                continue;
            if (s->top_p > 0 && s->top_p < 1 && taken > 0 && mass >= s->top_p * whole)
                p[i] = 0;
            mass += p[i];
            taken++;
        }
    for (int i = 0; i < TOKENS; i++)
        total += p[i];
    for (int i = 0; i < TOKENS; i++)
        p[i] /= total;
}

/* Chi-square of many draws with a fixed seed; the limit is the one-in-a-thousand value for 11
 * degrees of freedom, and is stricter for fewer. */
static void test_distribution(struct sampling s, const char *name)
{
    double p[TOKENS], chi = 0;
    int64_t seen[TOKENS] = {0};
    int strange = 0;

    expected(&s, p);
    for (int64_t i = 0; i < DRAWS; i++)
        seen[draw(&s, logits, TOKENS, 1, (uint64_t)(i % 7), i)]++;
    for (int i = 0; i < TOKENS; i++) {
        double wanted = p[i] * DRAWS;

        strange |= (p[i] == 0) && seen[i] > 0;
        if (wanted >= 1)
            chi += ((double)seen[i] - wanted) * ((double)seen[i] - wanted) / wanted;
    }
    ok(!strange, "%s: nothing is drawn that is ruled out", name);
    ok(chi < 31.26, "%s: drawn with the right frequency (chi-square %.1f)", name, chi);
}

static void test_parts(void)
{
    static const struct sampling rows[] = {
        {0, 0, 0, 5},     {1, 0, 0, 5},   {0.7, 0, 0, 9},   {1, 5, 0, 5},
        {1.3, 0, 0.8, 5}, {1, 6, 0.9, 7}, {2, 100, 1.0, 5}, {1, 1, 0.5, 5},
    };
    float many[1003];
    int same = 1;

    for (int i = 0; i < 1003; i++)
        many[i] = (float)(5 * sin(i * 12.9898)) + (i % 10 == 0 ? 1.0f : 0);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++)
        for (int64_t ranks = 2; ranks <= 8; ranks++)
            for (int64_t i = 0; i < 40; i++)
                same &=
                    draw(&rows[r], many, 1003, 1, 3, i) == draw(&rows[r], many, 1003, ranks, 3, i);
    ok(same, "the same token however the vocabulary is divided");
}

int main(void)
{
    struct sampling greedy = {0, 0, 0, 1}, plain = {1, 0, 0, 1}, k1 = {1, 1, 0, 1};
    struct sampling all = {1, TOKENS, 0, 1}, other = {1, 0, 0, 2};
    float bad[3] = {NAN, NAN, NAN}, some[4] = {NAN, 1, 2, NAN};
    int same = 1, alike = 1, differ = 0, texts = 0;

    ok(draw(&greedy, logits, TOKENS, 1, 0, 0) == 3, "greedy takes the largest");
    ok(draw(&greedy, logits + 4, 4, 1, 0, 0) == 0, "of equals the first");
    for (int64_t i = 0; i < 500; i++) {
        int64_t id = draw(&plain, logits, TOKENS, 1, 0, i);

        same &= draw(&k1, logits, TOKENS, 1, 0, i) == 3;
        alike &= draw(&all, logits, TOKENS, 1, 0, i) == id &&
                 draw(&plain, logits, TOKENS, 1, 0, i) == id;
        differ += draw(&other, logits, TOKENS, 1, 0, i) != id;
        texts += draw(&plain, logits, TOKENS, 1, 1, i) != id;
    }
    ok(same, "top-k 1 is greedy");
    ok(alike, "the same seed samples the same token, also with a top-k of all tokens");
    ok(differ > 100, "another seed samples other tokens");
    ok(texts > 100, "another text samples other tokens");
    test_distribution(plain, "temperature 1");
    test_distribution((struct sampling){0.5, 0, 0, 11}, "temperature 0.5");
    test_distribution((struct sampling){3, 0, 0, 12}, "temperature 3");
    test_distribution((struct sampling){1, 4, 0, 13}, "top-k 4");
    test_distribution((struct sampling){1, 0, 0.75, 14}, "top-p 0.75");
    test_distribution((struct sampling){1, 0, 0.05, 15}, "top-p 0.05");
    test_distribution((struct sampling){1.5, 6, 0.6, 16}, "top-k 6 with top-p 0.6");
    test_parts();
    ok(draw(&greedy, bad, 3, 1, 0, 0) == -1 && draw(&plain, bad, 3, 1, 0, 0) == -1 &&
           draw(&all, bad, 3, 1, 0, 0) == -1,
       "no token if all logits are NaN");
    ok(draw(&greedy, some, 4, 2, 0, 0) == 2, "a number among others is found");
    ok(draw(&greedy, logits, 3, 8, 0, 0) == 0, "ranks without columns offer nothing");
    return done_testing();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Every split over ranks: the parts cover the whole exactly once, and agree with values computed by
 * hand. */
#include "tap.h"
#include "engine/parallel/ranges.h"

static void test_parts(void)
{
    static const struct {
        int64_t total, parts, i, first, count;
    } cases[] = {
        {12, 1, 0, 0, 12},
        {12, 3, 0, 0, 4},
        {12, 3, 2, 8, 4},
        {0, 4, 3, 0, 0},
        {(int64_t)1 << 40, 8, 7, (int64_t)7 << 37, (int64_t)1 << 37},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct range r = range_part(cases[i].total, cases[i].parts, cases[i].i);

        ok(r.first == cases[i].first && r.count == cases[i].count, "part %d of %d of %lld",
           (int)cases[i].i, (int)cases[i].parts, (long long)cases[i].total);
    }
}

static void test_intersections(void)
{
    static const struct {
        struct range a, b, both;
    } cases[] = {
        {{0, 10}, {4, 3}, {4, 3}}, {{0, 5}, {4, 3}, {4, 1}}, {{6, 5}, {4, 3}, {6, 1}},
        {{0, 4}, {4, 3}, {4, 0}},  {{9, 2}, {4, 3}, {9, 0}}, {{4, 0}, {0, 9}, {4, 0}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct range r = range_intersect(cases[i].a, cases[i].b);

        ok(r.count == cases[i].both.count && (r.count == 0 || r.first == cases[i].both.first),
           "intersection %zu", i);
    }
}

static void test_vocabulary(void)
{
    static const struct {
        int64_t tp, at, padded, vocabulary, first, count;
    } cases[] = {
        {1, 0, 128, 100, 0, 100}, {4, 0, 128, 100, 0, 32},
        {4, 3, 128, 100, 96, 4},  {4, 3, 128, 90, 96, 0}, /* padding only */
        {2, 1, 128, 128, 64, 64},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct layout layout = {.tp = cases[i].tp, .cp = 1, .dp = 1, .pp = 1};
        struct layout_position at = {.tp = cases[i].at};
        struct range r = range_vocabulary(&layout, &at, cases[i].padded, cases[i].vocabulary);

        ok(r.first == cases[i].first && r.count == cases[i].count, "%d of %d tokens, rank %d of %d",
           (int)cases[i].vocabulary, (int)cases[i].padded, (int)cases[i].at, (int)cases[i].tp);
    }
}

/* Rank 'rank' of 'cp' holds these positions of a sequence of 16. */
static void test_zigzag_by_hand(void)
{
    static const struct {
        int64_t cp, rank, slices;
        const char *positions;
    } cases[] = {
        {1, 0, 1, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
        {2, 0, 2, "0 1 2 3 12 13 14 15"},
        {2, 1, 2, "4 5 6 7 8 9 10 11"},
        {4, 0, 2, "0 1 14 15"},
        {4, 2, 2, "4 5 10 11"},
        {4, 3, 2, "6 7 8 9"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct zigzag split = zigzag_split(16, cases[i].cp);
        char text[64] = "";

        for (int64_t row = 0; row < 16 / cases[i].cp; row++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", row ? " " : "",
                     (int)zigzag_position(&split, cases[i].rank, row));
        ok(split.slices == cases[i].slices && strcmp(text, cases[i].positions) == 0,
           "zigzag: rank %d of %d has positions %s", (int)cases[i].rank, (int)cases[i].cp,
           cases[i].positions);
    }
}

/* All positions once, slices in ascending order, and the same amount of causal attention each. */
static void test_zigzag(int64_t sequence, int64_t cp)
{
    struct zigzag split = zigzag_split(sequence, cp);
    char held[256] = {0};
    int64_t expected = -1;
    int good = 1;

    for (int64_t rank = 0; rank < cp; rank++) {
        int64_t work = 0, last = -1;

        for (int64_t row = 0; row < sequence / cp; row++) {
            int64_t position = zigzag_position(&split, rank, row);

            good = good && position > last && position < sequence && !held[position];
            held[position] = 1;
            work += position + 1;
            last = position;
        }
        for (int64_t i = 0; i < split.slices; i++)
            good = good && zigzag_slice(&split, rank, i).first ==
                               zigzag_position(&split, rank, i * split.rows);
        good = good && (expected < 0 || work == expected);
        expected = work;
    }
    ok(good, "zigzag: %d positions on %d ranks, each once, in balance", (int)sequence, (int)cp);
}

/* The shards of a bucket cover it in the order of the ranks that the layout numbers. */
static void test_shards(struct layout layout)
{
    struct range bucket = {1000, 24 * shard_count(&layout)};
    int64_t end = bucket.first;
    int good = 1;

    for (int64_t dp = 0; dp < layout.dp; dp++)
        for (int64_t cp = 0; cp < layout.cp; cp++) {
            struct layout_position at = {.tp = layout.tp - 1, .cp = cp, .dp = dp};
            int64_t number = shard_number(&layout, &at);
            struct range shard = shard_range(bucket, shard_count(&layout), number);

            good = good && shard.first == end && shard.count == 24;
            end = shard.first + shard.count;
        }
    ok(good && end == bucket.first + bucket.count, "shards of dp %d x cp %d", (int)layout.dp,
       (int)layout.cp);
}

int main(void)
{
    test_parts();
    test_intersections();
    test_vocabulary();
    test_zigzag_by_hand();
    for (int64_t cp = 1; cp <= 8; cp++)
        test_zigzag(16 * cp, cp);
    for (int64_t dp = 1; dp <= 3; dp++)
        for (int64_t cp = 1; cp <= 2; cp++)
            test_shards((struct layout){.tp = 2, .cp = cp, .dp = dp, .pp = 1});
    return done_testing();
}

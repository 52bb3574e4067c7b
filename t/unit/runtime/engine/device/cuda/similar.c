/* SPDX-License-Identifier: Apache-2.0 */
/* The most similar results, in the order of their distance. */
#include "engine/device/cuda/similar.h"
#include "tap.h"

#include <stdio.h>
#include <string.h>

static void test_distance(void)
{
    static const struct {
        int64_t sizes[3];
        int similar;
        const char *name;
    } rows[] = {
        {{64, 64, 64}, 1, "the same sizes"},      {{128, 32, 16}, 1, "four octaves in all"},
        {{1024, 64, 64}, 1, "in one size"},       {{1025, 64, 64}, 0, "a little more"},
        {{128, 32, 8}, 0, "five octaves in all"}, {{64, 64, 1}, 0, "six, to smaller sizes"},
        {{INT64_MAX, 1, 1}, 0, "extreme sizes"},  {{0, 64, 64}, 0, "a size of 0"},
        {{-64, 64, 64}, 0, "a negative size"},
    };
    static const int64_t sizes[3] = {64, 64, 64};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct similar similar = {.count = 0};

        similar_add(&similar, sizes, rows[i].sizes, "value");
        ok(similar.count == rows[i].similar, "%s", rows[i].name);
    }
}

/* Distances 0 to COUNT - 1 in an order that visits all of them. */
static void test_order(void)
{
    enum { COUNT = 37, STEP = 16 };
    char values[COUNT][16];
    struct similar similar = {.count = 0};
    int right = 0;

    for (int i = 0; i < COUNT; i++) {
        int distance = i * STEP % COUNT;
        const int64_t sizes[3] = {1000, 1000, 1000}, others[3] = {1000 + distance, 1000, 1000};

        snprintf(values[i], sizeof(values[i]), "%d", distance);
        similar_add(&similar, sizes, others, values[i]);
    }
    is_int(similar.count, SIMILAR_MOST, "the nearest are kept");
    for (int i = 0; i < similar.count; i++) {
        char expected[16];

        snprintf(expected, sizeof(expected), "%d", i);
        right += strcmp(similar.values[i], expected) == 0;
    }
    is_int(right, SIMILAR_MOST, "  in their order");
}

/* Of equal distances the first ones are kept, in their order. */
static void test_equal(void)
{
    static const int64_t sizes[3] = {8, 8, 8};
    static const char values[2 * SIMILAR_MOST];
    struct similar similar = {.count = 0};
    int right = 0;

    for (int i = 0; i < 2 * SIMILAR_MOST; i++)
        similar_add(&similar, sizes, sizes, values + i);
    for (int i = 0; i < SIMILAR_MOST; i++)
        right += similar.values[i] == values + i;
    is_int(right, SIMILAR_MOST, "equal distances: the first ones");
}

int main(void)
{
    test_distance();
    test_order();
    test_equal();
    return done_testing();
}

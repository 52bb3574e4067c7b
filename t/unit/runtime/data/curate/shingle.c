/* SPDX-License-Identifier: Apache-2.0 */
/* Shingles of a text and the Jaccard similarity of two texts. */
#include "config.h"
#include "data/curate/shingle.h"
#include "tap.h"

#include <math.h>

static double similarity_of(const char *a, const char *b, enum shingle_unit unit, size_t n)
{
    struct shingles left = {0}, right = {0};
    double similarity;

    shingles_make(&left, unit, n, a, strlen(a));
    shingles_make(&right, unit, n, b, strlen(b));
    shingles_unique(&left);
    shingles_unique(&right);
    similarity = shingles_similarity(left.items, left.count, right.items, right.count);
    shingles_clear(&left);
    shingles_clear(&right);
    return similarity;
}

static void test_shingles(void)
{
    static const struct {
        const char *a, *b;
        enum shingle_unit unit;
        size_t n;
        double similarity;
    } rows[] = {
        {"One two three four five six", "one, TWO (three) four; five six!", SHINGLE_WORDS, 5, 1},
        {"in 1999 there were 3 of them", "in 2024 there were 17 of them", SHINGLE_WORDS, 5, 1},
        {"a b c d e f", "b c d e f g", SHINGLE_WORDS, 5, 1. / 3},
        {"a b c", "a b c", SHINGLE_WORDS, 5, 1},
        {"a b c", "a b d", SHINGLE_WORDS, 5, 0},
        {"", "", SHINGLE_WORDS, 5, 1},
        {"abcd", "bcde", SHINGLE_CHARACTERS, 3, 1. / 3},
        {"\xC3\xA9t\xC3\xA9s", "\xC3\xA9t\xC3\xA9z", SHINGLE_CHARACTERS, 3, 1. / 3},
        {"ab", "ab", SHINGLE_CHARACTERS, 24, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double got = similarity_of(rows[i].a, rows[i].b, rows[i].unit, rows[i].n);

        ok(fabs(got - rows[i].similarity) < 1e-9, "similarity of \"%s\" and \"%s\": %.3f",
           rows[i].a, rows[i].b, got);
    }
}

int main(void)
{
    test_shingles();
    return done_testing();
}

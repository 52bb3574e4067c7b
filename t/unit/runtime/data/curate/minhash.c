/* SPDX-License-Identifier: Apache-2.0 */
/* MinHash signatures: all implementations agree, and pairs are found as often as the theory says.
 */
#include "config.h"
#include "data/curate/minhash.h"
#include "data/curate/hash.h"
#include "base/core/rng.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

/* Two sets with 'common' of their 'common + 2 * own' shingles in both. */
static void make_sets(uint32_t *a, uint32_t *b, size_t common, size_t own, uint64_t seed)
{
    for (size_t i = 0; i < common + own; i++) {
        a[i] = (uint32_t)hash_mix(rng_bits(seed, RNG_TEST, 0, i));
        b[i] = i < common ? a[i] : (uint32_t)hash_mix(rng_bits(seed, RNG_TEST, 1, i));
    }
}

static int share_a_band(const struct minhash *minhash, const uint32_t *a, const uint32_t *b,
                        size_t count, uint32_t *minima)
{
    minhash_minima(minhash, a, count, minima);
    minhash_minima(minhash, b, count, minima + minhash->count);
    for (size_t band = 0; band < minhash->bands; band++)
        if (minhash_band(minhash, minima, band) ==
            minhash_band(minhash, minima + minhash->count, band))
            return 1;
    return 0;
}

/* Pairs of known similarity are found as often as the theory says, within four deviations. */
static void test_curve(const char *name, size_t bands, size_t rows, int pairs)
{
    enum { UNION = 240 };
    struct minhash minhash;
    struct error err;
    uint32_t a[UNION], b[UNION], *minima;

    minhash_init(&minhash, bands, rows, 1, NULL, &err);
    minima = malloc(2 * minhash.count * sizeof(*minima));
    for (int s = 3; s <= 9; s++) {
        size_t common = (size_t)(UNION * s / 10), own = (UNION - common) / 2;
        double similarity = (double)common / (double)(common + 2 * own);
        double expected = 1 - pow(1 - pow(similarity, (double)rows), (double)bands);
        double deviation = sqrt(expected * (1 - expected) * pairs) + 1;
        int found = 0;

        for (int i = 0; i < pairs; i++) {
            make_sets(a, b, common, own, (uint64_t)(i * 100 + s));
            found += share_a_band(&minhash, a, b, common + own, minima);
        }
        ok(fabs(found - expected * pairs) <= 4 * deviation,
           "%s: %d of %d pairs with similarity %.2f found, %.1f expected", name, found, pairs,
           similarity, expected * pairs);
    }
    free(minima);
    minhash_clear(&minhash);
}

/* All ways to compute them give the same minima. */
static void test_engines(void)
{
    static const char *const engines[] = {"plain", "avx2", "avx512"};
    struct minhash plain, other;
    struct error err;
    uint32_t shingles[5000], *expected, *got;

    for (size_t i = 0; i < 5000; i++)
        shingles[i] = (uint32_t)hash_mix(i + 1);
    minhash_init(&plain, 20, 13, 7, "plain", &err);
    expected = malloc(plain.count * sizeof(*expected));
    got = malloc(plain.count * sizeof(*got));
    for (size_t k = 0; k < 3; k++)
        for (size_t count = 0; count <= 5000; count = count * 7 + 1) {
            if (minhash_init(&other, 20, 13, 7, engines[k], &err) < 0)
                break;
            minhash_minima(&plain, shingles, count, expected);
            minhash_minima(&other, shingles, count, got);
            ok(memcmp(expected, got, plain.count * sizeof(*got)) == 0, "%s on %zu shingles",
               engines[k], count);
            minhash_clear(&other);
        }
    ok(expected[3] != expected[4] && expected[0] != UINT32_MAX, "minima differ from each other");
    ok(minhash_init(&other, 1, 1, 7, "mmx", &err) < 0 && strstr(err.text, "mmx"), "%s", err.text);
    minhash_clear(&plain);
    minhash_clear(&other);
    free(expected);
    free(got);
}

int main(void)
{
    test_engines();
    test_curve("FineWeb", 14, 8, 400);
    test_curve("NeMo", 20, 13, 400);
    test_curve("RefinedWeb", 450, 20, 40);
    return done_testing();
}

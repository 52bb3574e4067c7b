/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "minhash.h"
#include "hash.h"
#include "base/core/rng.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct engine_entry {
    const char *name;
    void (*lower)(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                  uint32_t *minima);
};

static int machine_runs(const char *name)
{
#if defined(__x86_64__) && !defined(__clang__)
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2");
#endif
    return strcmp(name, "plain") == 0;
}

static int pick_engine(struct minhash *minhash, const char *wanted)
{
    static const struct engine_entry engines[] = {
#if defined(__x86_64__) && !defined(__clang__)
        {"avx512", minhash_lower_avx512},
        {"avx2", minhash_lower_avx2},
#endif
        {"plain", minhash_lower_plain},
    };

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        if ((!wanted || strcmp(wanted, engines[i].name) == 0) && machine_runs(engines[i].name)) {
            minhash->lower = engines[i].lower;
            minhash->engine = engines[i].name;
            return 0;
        }
    return -1;
}

int minhash_init(struct minhash *minhash, size_t bands, size_t rows, uint64_t seed,
                 const char *engine, struct error *err)
{
    memset(minhash, 0, sizeof(*minhash));
    if (pick_engine(minhash, engine) < 0)
        return error_bug(err, "the CPU of this node cannot run the MinHash code for %s", engine);
    minhash->bands = bands;
    minhash->rows = rows;
    minhash->count = (bands * rows + MINHASH_LANES - 1) / MINHASH_LANES * MINHASH_LANES;
    minhash->a = xcalloc(minhash->count, sizeof(*minhash->a));
    minhash->b = xcalloc(minhash->count, sizeof(*minhash->b));
    for (size_t i = 0; i < minhash->count; i++) {
        uint64_t bits = rng_bits(seed, RNG_CURATE, 0, i);

        minhash->a[i] = (uint32_t)bits | 1;
        minhash->b[i] = (uint32_t)(bits >> 32);
    }
    return 0;
}

void minhash_clear(struct minhash *minhash)
{
    free(minhash->a);
    free(minhash->b);
    memset(minhash, 0, sizeof(*minhash));
}

void minhash_minima(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                    uint32_t *minima)
{
    memset(minima, 0xFF, minhash->count * sizeof(*minima));
    minhash->lower(minhash, shingles, count, minima);
}

uint64_t minhash_band(const struct minhash *minhash, const uint32_t *minima, size_t band)
{
    return hash_bytes(minima + band * minhash->rows, minhash->rows * sizeof(*minima), band);
}

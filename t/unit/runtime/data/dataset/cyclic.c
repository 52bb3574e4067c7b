/* SPDX-License-Identifier: Apache-2.0 */
/* The order of --dataloader-type cyclic: that of Megatron's random sampler, with torch.randperm. */
#include "data/dataset/cyclic.h"
#include "tap.h"

enum { RANKS = 2, MICRO = 2, SAMPLES = 23, EACH = 24 };

/* Two epochs of 10 samples per rank, and the beginning of a third one; rank 1's are 10 more. */
static const int expected[EACH] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2, 5, 6,
                                   1, 2, 0, 8, 9, 3, 7, 4, 8, 7, 1, 5};

int main(void)
{
    struct error err;
    struct cyclic *c = cyclic_create(SAMPLES, MICRO, RANKS, &err);
    int good = 1;

    for (int64_t at = 0; c && at < RANKS * EACH; at++) {
        int64_t rank = at / MICRO % RANKS, own = at / (RANKS * MICRO) * MICRO + at % MICRO;

        good &= cyclic_sample(c, at) == expected[own] + 10 * rank;
    }
    ok(c && good, "the order of two ranks over epochs");
    ok(c && cyclic_sample(c, 8) == 3, "and from the middle of one");
    cyclic_destroy(c);
    c = cyclic_create(100000, 1, 1, &err);
    ok(c && cyclic_sample(c, 100000) == 95845 && cyclic_sample(c, 199999) == 61140,
       "a permutation of 100,000 in the second epoch");
    cyclic_destroy(c);
    ok(!cyclic_create(3, 2, 2, &err) && err.code == ERROR_USAGE, "too few samples for one batch");
    return done_testing();
}

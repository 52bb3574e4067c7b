/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset_private.h"
#include "base/core/rng.h"

enum { LONGEST = 4095 };

static uint32_t draw(const struct dataset *dataset, int64_t i, uint32_t number)
{
    struct rng_block block = rng_philox(dataset->seed, (uint64_t)i,
                                        RNG_MOCK_DATA + (uint32_t)dataset->split, number / 4);

    return block.word[number % 4];
}

void mock_text(const struct dataset *dataset, int64_t i, int32_t *text)
{
    int64_t length = 1 + draw(dataset, i, 0) % LONGEST, count = dataset->sequence_length + 1;
    /* The first document started before the sample. */
    int64_t at = draw(dataset, i, 1) % (uint32_t)length;
    uint32_t drawn = 2;

    for (int64_t j = 0; j < count; j++) {
        if (at == length - 1) {
            text[j] = dataset->eod;
            length = 1 + draw(dataset, i, drawn++) % LONGEST;
            at = 0;
            continue;
        }
        text[j] = (int32_t)((at + 1) % dataset->vocabulary);
        at++;
    }
}

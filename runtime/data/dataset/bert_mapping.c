/* SPDX-License-Identifier: Apache-2.0 */
#include "bert.h"
#include "mt19937.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "base/core/list.h"

enum { LONG_SENTENCE = 512 };

/* --- std::mt19937_64 ------------------------------------------------------------------------- */

enum { WORDS64 = 312, MIDDLE64 = 156 };

struct mt19937_64 {
    uint64_t state[WORDS64];
    int at;
};

static void seed64(struct mt19937_64 *rng, uint64_t seed)
{
    rng->state[0] = seed;
    for (int i = 1; i < WORDS64; i++)
        rng->state[i] =
            UINT64_C(6364136223846793005) * (rng->state[i - 1] ^ rng->state[i - 1] >> 62) +
            (uint64_t)i;
    rng->at = WORDS64;
}

static uint64_t next64(struct mt19937_64 *rng)
{
    const uint64_t upper = UINT64_C(0xFFFFFFFF80000000);
    uint64_t x;

    if (rng->at == WORDS64) {
        for (int i = 0; i < WORDS64; i++) {
            x = (rng->state[i] & upper) | (rng->state[(i + 1) % WORDS64] & ~upper);
            rng->state[i] = rng->state[(i + MIDDLE64) % WORDS64] ^ x >> 1 ^
                            (x & 1 ? UINT64_C(0xB5026F5AA96619E9) : 0);
        }
        rng->at = 0;
    }
    x = rng->state[rng->at++];
    x ^= x >> 29 & UINT64_C(0x5555555555555555);
    x ^= x << 17 & UINT64_C(0x71D67FFFEDA60000);
    x ^= x << 37 & UINT64_C(0xFFF7EEE000000000);
    return x ^ x >> 43;
}

/* --- The mapping ----------------------------------------------------------------------------- */

struct mapping {
    const struct bert_request *request;
    struct mt19937 rng;
    uint32_t ratio; /* one of so many samples is short; 0: none */
    LIST(struct bert_range) ranges;
};

static uint32_t draw_target(struct mapping *m)
{
    uint32_t longest = (uint32_t)m->request->target, value;

    if (m->ratio == 0)
        return longest;
    value = mt19937_next(&m->rng);
    return value % m->ratio == 0 ? 2 + value % (longest - 1) : longest;
}

static void add_range(struct mapping *m, int64_t first, int64_t end, uint32_t target)
{
    *list_add(&m->ranges) = (struct bert_range){(uint32_t)first, (uint32_t)end, target};
}

/* Documents with few sentences or a long one are left out. */
static int is_usable(const struct bert_request *r, int64_t first, int64_t last)
{
    if (last - first < r->least)
        return 0;
    for (int64_t i = first; i < last && last - first > 1; i++)
        if (r->lengths[i] > LONG_SENTENCE)
            return 0;
    return 1;
}

static void add_document(struct mapping *m, int64_t first, int64_t last)
{
    const struct bert_request *r = m->request;
    int64_t begin = first, length = 0, sentences = 0;
    uint32_t target;

    if (!is_usable(r, first, last))
        return;
    target = draw_target(m);
    for (int64_t i = first; i < last; i++) {
        int64_t remaining = last - i - 1;

        length += r->lengths[i];
        sentences++;
        if (remaining != 0 && (length < target || remaining < 2 || sentences < r->least))
            continue;
        add_range(m, begin, i + 1, target);
        begin = i + 1;
        target = draw_target(m);
        length = sentences = 0;
    }
}

static void shuffle(struct bert_range *ranges, int64_t count, uint32_t seed)
{
    struct mt19937_64 rng;

    seed64(&rng, (uint64_t)seed + 1);
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)(next64(&rng) % (uint64_t)(i + 1));
        struct bert_range kept = ranges[i];

        ranges[i] = ranges[j];
        ranges[j] = kept;
    }
}

int64_t bert_mapping(const struct bert_request *r, struct bert_range **ranges, struct error *err)
{
    struct mapping m = {.request = r};
    size_t before;

    *ranges = NULL;
    if (r->target < 2)
        return error_set(err, "a pair of sentences needs a sequence length of 5 or more; change "
                              "--seq-length");
    if (r->short_probability > 0)
        m.ratio = (uint32_t)round(1 / r->short_probability);
    mt19937_seed(&m.rng, r->seed);
    do {
        before = m.ranges.count;
        for (int64_t d = 0; d < r->document_count; d++)
            add_document(&m, r->documents[d], r->documents[d + 1]);
    } while ((int64_t)m.ranges.count < r->samples && m.ranges.count > before);
    shuffle(m.ranges.items, (int64_t)m.ranges.count, r->seed);
    *ranges = m.ranges.items;
    return (int64_t)m.ranges.count;
}

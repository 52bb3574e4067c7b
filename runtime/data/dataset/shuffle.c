/* SPDX-License-Identifier: Apache-2.0 */
/* A shuffle swaps element i with an element j <= i, for i from the last one down, and every j comes
 * from one generator. A large shuffle is bound not by the generator but by memory latency: each j
 * is at a random place. The swaps can be reordered, though, and thus divided among threads.
 *
 * Take a batch of swaps, those of i in (bottom, top]. After swap i, element i is never touched
 * again. So the swaps whose j is above 'bottom' too can be done first, in their order. The
 * remaining ones move each element i to a j below the batch, and only swaps with the same j depend
 * on each other. They are sorted, stably, by the region of j; regions are independent. While
 * threads swap one batch, another thread draws the next. */
#include "mt19937.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"
#include "base/core/threads.h"

enum {
    OFFSET_BITS = 20,
    BATCH = 1 << OFFSET_BITS, /* swaps */
    REGIONS = 256,
    AHEAD = 24,        /* prefetch distance in swaps */
    LEAST = 8 * BATCH, /* below this number of elements it is not worthwhile */
};

/* The swaps of a batch: j << OFFSET_BITS | top - i, those of region r at [first[r], first[r + 1]),
 * those within the batch after all. */
struct batch_swaps {
    uint64_t top, bottom; /* i in (bottom, top] */
    uint64_t *swaps;
    uint32_t first[REGIONS + 2];
};

struct shuffle {
    struct mt19937 *rng;
    void *array;
    uint64_t *drawn; /* targets of a batch */
    struct batch_swaps batches[2];
    struct batch_swaps *now, *next;
    int shift; /* shift from an element's number to its region */
    void (*swap)(void *array, const struct batch_swaps *batch, uint32_t from, uint32_t to);
};

static uint32_t region_of(const struct shuffle *s, const struct batch_swaps *batch, uint64_t target)
{
    return target > batch->bottom ? REGIONS : (uint32_t)(target >> s->shift);
}

/* Draw a batch and sort it by region. */
static void draw(struct shuffle *s, struct batch_swaps *batch)
{
    uint32_t at[REGIONS + 1] = {0}, count = (uint32_t)(batch->top - batch->bottom), sum = 0;

    mt19937_targets(s->rng, batch->top, count, s->drawn);
    for (uint32_t k = 0; k < count; k++)
        at[region_of(s, batch, s->drawn[k])]++;
    for (int r = 0; r <= REGIONS; r++) {
        batch->first[r] = sum;
        sum += at[r];
        at[r] = batch->first[r];
    }
    batch->first[REGIONS + 1] = sum;
    for (uint32_t k = 0; k < count; k++)
        batch->swaps[at[region_of(s, batch, s->drawn[k])]++] = s->drawn[k] << OFFSET_BITS | k;
}

#define SWAP(name, type)                                                                        \
    static void name(void *memory, const struct batch_swaps *batch, uint32_t from, uint32_t to) \
    {                                                                                           \
        type *array = memory;                                                                   \
                                                                                                \
        for (uint32_t k = from; k < to; k++) {                                                  \
            uint64_t swap = batch->swaps[k];                                                    \
            uint64_t ahead = batch->swaps[k + AHEAD < to ? k + AHEAD : k];                      \
            type *one = &array[batch->top - (swap & (BATCH - 1))];                              \
            type *other = &array[swap >> OFFSET_BITS], value = *other;                          \
                                                                                                \
            __builtin_prefetch(&array[ahead >> OFFSET_BITS], 1);                                \
            *other = *one;                                                                      \
            *one = value;                                                                       \
        }                                                                                       \
    }

SWAP(swap_u32, uint32_t)
SWAP(swap_i64, int64_t)

/* Task 0 draws the next batch; the others are regions of this one. */
static int work(void *arg, int64_t i, struct error *err)
{
    struct shuffle *s = arg;

    (void)err;
    if (i > 0)
        s->swap(s->array, s->now, s->now->first[i - 1], s->now->first[i]);
    else if (s->next->top > s->next->bottom)
        draw(s, s->next);
    return 0;
}

/* The batch below 'top'; an empty one if little is left. */
static void place(struct batch_swaps *batch, uint64_t top)
{
    batch->top = top;
    batch->bottom = top >= LEAST ? top - BATCH : top;
}

/* Shuffle all but the first elements. Returns the number of those. */
static int64_t shuffle_most(struct shuffle *s, int64_t count, int threads)
{
    uint64_t top = (uint64_t)count - 1;

    s->drawn = xmalloc(BATCH * sizeof(*s->drawn));
    for (int i = 0; i < 2; i++)
        s->batches[i].swaps = xmalloc(BATCH * sizeof(uint64_t));
    while (top >> s->shift >= REGIONS)
        s->shift++;
    s->next = &s->batches[0];
    place(s->next, top);
    draw(s, s->next);
    for (int turn = 1; s->next->top > s->next->bottom; turn = !turn) {
        s->now = s->next;
        s->next = &s->batches[turn];
        place(s->next, s->now->bottom);
        s->swap(s->array, s->now, s->now->first[REGIONS], s->now->first[REGIONS + 1]);
        threads_loop(threads, REGIONS + 1, work, s, NULL);
    }
    free(s->drawn);
    free(s->batches[0].swaps);
    free(s->batches[1].swaps);
    return (int64_t)s->next->top + 1;
}

void shuffle_u32(struct mt19937 *rng, uint32_t *array, int64_t count, int threads)
{
    struct shuffle s = {.rng = rng, .array = array, .swap = swap_u32};

    if (threads > 1 && count > LEAST)
        count = shuffle_most(&s, count, threads);
    mt19937_shuffle_u32(rng, array, count);
}

void shuffle_i64(struct mt19937 *rng, int64_t *array, int64_t count, int threads)
{
    struct shuffle s = {.rng = rng, .array = array, .swap = swap_i64};

    if (threads > 1 && count > LEAST)
        count = shuffle_most(&s, count, threads);
    mt19937_shuffle_i64(rng, array, count);
}

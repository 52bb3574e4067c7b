/* SPDX-License-Identifier: Apache-2.0 */
/* Long words that bpe_linear.c cannot handle: a queue of pairs over a linked list. The initial
 * pairs are sorted once; pairs that merges create go into a heap, which stays small. */
#include "bpe.h"

#include <stdlib.h>
#include <string.h>

struct queue {
    uint64_t *sorted; /* rank, then position: the smallest is the next to merge */
    size_t at, sorted_count;
    uint64_t *items; /* a heap of those that merges create */
    size_t count;
};

static void queue_put(struct queue *queue, uint64_t item)
{
    size_t at = queue->count++;

    while (at > 0 && queue->items[(at - 1) / 2] > item) {
        queue->items[at] = queue->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->items[at] = item;
}

static uint64_t heap_take(struct queue *queue)
{
    uint64_t first = queue->items[0], last = queue->items[--queue->count];
    size_t at = 0, child;

    while ((child = at * 2 + 1) < queue->count) {
        if (child + 1 < queue->count && queue->items[child + 1] < queue->items[child])
            child++;
        if (queue->items[child] >= last)
            break;
        queue->items[at] = queue->items[child];
        at = child;
    }
    queue->items[at] = last;
    return first;
}

static uint64_t queue_take(struct queue *queue)
{
    if (queue->at < queue->sorted_count &&
        (queue->count == 0 || queue->sorted[queue->at] < queue->items[0]))
        return queue->sorted[queue->at++];
    return heap_take(queue);
}

static int compare_items(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static void queue_sort(struct queue *queue)
{
    size_t i = 1;

    while (i < queue->sorted_count && queue->sorted[i - 1] < queue->sorted[i])
        i++;
    if (i < queue->sorted_count)
        qsort(queue->sorted, queue->sorted_count, sizeof(*queue->sorted), compare_items);
}

enum { REMEMBERED_BITS = 9, REMEMBERED = 1 << REMEMBERED_BITS };

struct chain {
    const struct bpe *bpe;
    uint32_t *symbols, *ranks, *previous, *next;
    struct queue queue;
    /* Recent merges, by pair: runs of one character repeat the same few merges over and over. */
    uint64_t pairs[REMEMBERED];
    uint32_t merged[REMEMBERED];
};

static uint32_t merge_pair(struct chain *chain, uint32_t left, uint32_t right, uint32_t rank)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    size_t slot = bpe_pair_hash(pair) >> (64 - REMEMBERED_BITS);

    if (chain->pairs[slot] != pair) {
        chain->pairs[slot] = pair;
        chain->merged[slot] = bpe_merge(chain->bpe, left, right, rank);
    }
    return chain->merged[slot];
}

/* Look up the rank of the pair at 'at' and its successor again. */
static void rank_again(struct chain *chain, uint32_t at)
{
    uint32_t next = chain->next[at];

    chain->ranks[at] = next == BPE_NONE
                           ? BPE_NONE
                           : bpe_rank(chain->bpe, chain->symbols[at], chain->symbols[next]);
    if (chain->ranks[at] != BPE_NONE)
        queue_put(&chain->queue, (uint64_t)chain->ranks[at] << 32 | at);
}

static void merge_at(struct chain *chain, uint32_t at, uint32_t rank)
{
    uint32_t gone = chain->next[at];

    chain->symbols[at] = merge_pair(chain, chain->symbols[at], chain->symbols[gone], rank);
    chain->ranks[gone] = BPE_NONE;
    chain->next[at] = chain->next[gone];
    if (chain->next[at] != BPE_NONE)
        chain->previous[chain->next[at]] = at;
    rank_again(chain, at);
    if (chain->previous[at] != BPE_NONE)
        rank_again(chain, chain->previous[at]);
}

size_t bpe_merge_heap(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t *symbols,
                      size_t count)
{
    /* Each merge removes one symbol and puts at most two pairs into the heap. */
    size_t size = count * (3 * sizeof(uint32_t) + 3 * sizeof(uint64_t));
    struct chain chain = {.bpe = bpe, .symbols = symbols};
    size_t made = 0;

    bpe_scratch_reserve(scratch, size);
    memset(chain.pairs, 0xff, sizeof(chain.pairs));
    chain.queue.sorted = scratch->memory;
    chain.queue.items = chain.queue.sorted + count;
    chain.ranks = (uint32_t *)(chain.queue.items + 2 * count);
    chain.previous = chain.ranks + count;
    chain.next = chain.previous + count;
    for (uint32_t i = 0; i < count; i++) {
        chain.previous[i] = i == 0 ? BPE_NONE : i - 1;
        chain.next[i] = i + 1 == count ? BPE_NONE : i + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        chain.ranks[i] = i + 1 < count ? bpe_rank(bpe, symbols[i], symbols[i + 1]) : BPE_NONE;
        if (chain.ranks[i] != BPE_NONE)
            chain.queue.sorted[chain.queue.sorted_count++] = (uint64_t)chain.ranks[i] << 32 | i;
    }
    queue_sort(&chain.queue);
    while (chain.queue.count > 0 || chain.queue.at < chain.queue.sorted_count) {
        uint64_t item = queue_take(&chain.queue);
        uint32_t at = (uint32_t)item;

        /* If one of the two has merged since, the pair has another rank, or it may merge at this
         * one. */
        if (chain.ranks[at] == item >> 32)
            merge_at(&chain, at, chain.ranks[at]);
    }
    for (uint32_t i = 0; i != BPE_NONE; i = chain.next[i])
        symbols[made++] = symbols[i];
    return made;
}

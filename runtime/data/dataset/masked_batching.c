/* SPDX-License-Identifier: Apache-2.0 */
#include "masked_blocks.h"
#include "mt19937.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* A stable sort of the shuffled blocks by length: numpy.lexsort by (length, random number). The
 * random numbers are a permutation p; block i comes at position p[i] among those of its length. */
static void sort_blocks(struct batching *b, const struct blocks *blocks,
                        const struct batching_config *c)
{
    int64_t n = blocks->count, most = 0, kept = 0;
    uint32_t *key = xcalloc((size_t)n + 1, sizeof(*key));
    uint32_t *by_key = xcalloc((size_t)n + 1, sizeof(*by_key));
    int64_t *starts;
    struct mt19937 rng;

    for (int64_t i = 0; i < n; i++)
        if (blocks->lengths[i] + c->extra <= c->longest && blocks->lengths[i] > most)
            most = blocks->lengths[i];
    starts = xcalloc((size_t)most + 2, sizeof(*starts));
    b->order = xcalloc((size_t)n + 1, sizeof(*b->order));
    for (int64_t i = 0; i < n; i++)
        key[i] = (uint32_t)i;
    mt19937_seed(&rng, c->seed);
    mt19937_shuffle_u32(&rng, key, n);
    for (int64_t i = 0; i < n; i++)
        by_key[key[i]] = (uint32_t)i;
    for (int64_t i = 0; i < n; i++)
        if (blocks->lengths[i] <= most) {
            starts[blocks->lengths[i] + 1]++;
            kept++;
        }
    for (int64_t length = 0; length <= most; length++)
        starts[length + 1] += starts[length];
    for (int64_t i = 0; i < n; i++) {
        int32_t length = blocks->lengths[by_key[i]];

        if (length <= most)
            b->order[starts[length]++] = by_key[i];
    }
    b->blocks = kept;
    b->skipped = n - kept;
    free(key);
    free(by_key);
    free(starts);
}

/* The batch that is being filled, [start, end), and what comes after it, the tail: it joins the
 * batch when both together have an allowed size. */
struct cutting {
    int64_t start, end, longest, tail_longest;
};

static void add_end(struct batching *b, int64_t end)
{
    b->ends[b->batches++] = end;
}

static void cut_at(struct batching *b, struct cutting *cut, int64_t at, int64_t tokens,
                   const struct batching_config *c)
{
    int64_t sentences = at + 1 - cut->start, longest, matches;

    if (tokens > cut->tail_longest)
        cut->tail_longest = tokens;
    longest = cut->longest > cut->tail_longest ? cut->longest : cut->tail_longest;
    matches = sentences < c->multiple || sentences % c->multiple == 0;
    if (sentences > c->max_sentences ||
        (c->max_tokens > 0 && sentences * longest > c->max_tokens)) {
        int64_t tail = at + 1 - cut->end;

        if (cut->end > cut->start)
            add_end(b, cut->end);
        cut->start = cut->end;
        if (c->max_tokens > 0 && tail * cut->tail_longest > c->max_tokens) {
            if (at > cut->start)
                add_end(b, at);
            cut->start = at;
            cut->tail_longest = tokens;
        }
        longest = cut->tail_longest;
        matches = 1;
    }
    if (matches) {
        cut->end = at + 1;
        cut->longest = longest;
        cut->tail_longest = 0;
    }
}

int batching_make(struct batching *batching, const struct blocks *blocks,
                  const struct batching_config *config, struct error *err)
{
    struct cutting cut = {0, 0, 0, 0};

    *batching = (struct batching){0};
    if (blocks->count > INT32_MAX)
        return error_set(err, "%" PRId64 " samples, but at most %d can be batched; split the data",
                         blocks->count, INT32_MAX);
    if (config->max_tokens > 0 && config->max_tokens < config->longest)
        return error_set(err,
                         "a batch of %" PRId64 " tokens cannot hold a sample of %" PRId64
                         " tokens; raise --max-tokens",
                         config->max_tokens, config->longest);
    sort_blocks(batching, blocks, config);
    batching->ends = xcalloc((size_t)batching->blocks + 2, sizeof(*batching->ends));
    for (int64_t i = 0; i < batching->blocks; i++)
        cut_at(batching, &cut, i, blocks->lengths[batching->order[i]] + config->extra, config);
    if (cut.end > cut.start)
        add_end(batching, cut.end);
    if (cut.end < batching->blocks)
        add_end(batching, batching->blocks);
    return 0;
}

void batching_clear(struct batching *batching)
{
    free(batching->order);
    free(batching->ends);
    *batching = (struct batching){0};
}

void batching_shuffle(int64_t batches, uint32_t seed, int64_t epoch, uint32_t *order)
{
    struct mt19937 rng;

    for (int64_t i = 0; i < batches; i++)
        order[i] = (uint32_t)i;
    mt19937_seed(&rng, (uint32_t)(seed + (uint64_t)epoch));
    mt19937_shuffle_u32(&rng, order, batches);
}

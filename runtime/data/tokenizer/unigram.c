/* SPDX-License-Identifier: Apache-2.0 */
#include "unigram.h"
#include "unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define SUM_MOST 274877906944.0 /* 2^38: of a text of 4 GiB */

struct unigram_node {
    union {
        float single;
        double full;
    } score;
    float lead;     /* over the next best path; exact enough for what it is compared with */
    uint32_t begin; /* of the last piece; UINT32_MAX: not reached yet */
    uint32_t id;
    uint32_t depth, other_depth; /* pieces up to here, on the best path and on any other */
};

void unigram_clear(struct unigram *unigram)
{
    double_array_clear(&unigram->pieces);
    free(unigram->scores);
    free(unigram->added);
    free(unigram->scores_single);
    free(unigram->added_single);
    free(unigram->scores_short);
    free(unigram->pairs);
    memset(unigram, 0, sizeof(*unigram));
}

/* Sums in float, in double, or in float after a text, where they may be reset. */
enum search { SEARCH_SINGLE, SEARCH_FULL, SEARCH_SINGLE_AFTER };

static inline int is_single(enum search kind)
{
    return kind != SEARCH_FULL;
}

/* Offer a piece that starts at 'begin' to the node where it ends. */
static inline void offer(struct unigram_node *node, enum search kind, double sum, uint32_t begin,
                         uint32_t depth, uint32_t id)
{
    double best = is_single(kind) ? (double)node->score.single : node->score.full;

    if (node->begin == UINT32_MAX || sum > best) {
        if (node->begin != UINT32_MAX) {
            node->lead = (float)(sum - best);
            node->other_depth = node->depth > node->other_depth ? node->depth : node->other_depth;
        }
        if (is_single(kind))
            node->score.single = (float)sum;
        else
            node->score.full = sum;
        node->begin = begin;
        node->depth = depth;
        node->id = id;
    } else {
        float lead = (float)(best - sum);

        node->lead = lead < node->lead ? lead : node->lead;
        node->other_depth = depth > node->other_depth ? depth : node->other_depth;
    }
}

/* All pieces that begin at 'at', where there is a character of 'size' bytes. Returns where the
 * longest one ends. */
static inline __attribute__((always_inline)) size_t
offer_all(const struct unigram *unigram, enum search kind, struct unigram_node *nodes,
          const uint8_t *word, size_t length, size_t at, size_t size)
{
    double before = is_single(kind) ? (double)nodes[at].score.single : nodes[at].score.full;
    double score, sum;
    uint32_t depth = nodes[at].depth + 1, base = unigram->pieces.root, number;
    size_t furthest = at + size;
    int known = 0;

    for (size_t end = at; end < length;) {
        if (!double_array_step(&unigram->pieces, word[end], &base, &number))
            break;
        end++;
        if (number == 0)
            continue;
        score = is_single(kind) ? (double)unigram->scores_single[number - 1]
                                : unigram->scores[number - 1];
        sum = is_single(kind) ? (double)((float)before + (float)score) : before + score;
        if (kind == SEARCH_SINGLE_AFTER)
            furthest = end > furthest ? end : furthest;
        offer(&nodes[end], kind, sum, (uint32_t)at, depth, number - 1);
        known |= end - at == size;
    }
    if (!known) {
        score = unigram->unknown_score;
        sum = is_single(kind) ? (double)((float)before + (float)score) : before + score;
        offer(&nodes[at + size], kind, sum, (uint32_t)at, depth, BPE_NONE);
    }
    return furthest;
}

/* Subtract the sum at 'at' from all sums that are known. */
static void reset(struct unigram_node *nodes, size_t at, size_t furthest)
{
    float offset = nodes[at].score.single;

    for (size_t i = at; i <= furthest; i++)
        if (i == at || nodes[i].begin != UINT32_MAX)
            nodes[i].score.single -= offset;
}

/* Find the best path to all positions of a word. */
static inline __attribute__((always_inline)) void
search(const struct unigram *unigram, enum search kind, struct unigram_node *nodes,
       const uint8_t *word, size_t length, double score)
{
    size_t furthest = 0;

    for (size_t i = 0; i <= length; i++) {
        nodes[i].begin = UINT32_MAX;
        nodes[i].lead = INFINITY;
        nodes[i].other_depth = 0;
    }
    nodes[0].depth = 0;
    if (is_single(kind))
        nodes[0].score.single = (float)score;
    else
        nodes[0].score.full = score;
    for (size_t at = 0, size; at < length; at += size) {
        uint32_t point;
        size_t end;

        size = word[at] < 0x80 ? 1 : utf8_decode(word + at, word + length, &point);
        if (kind == SEARCH_SINGLE_AFTER && fabsf(nodes[at].score.single) > UNIGRAM_RESET)
            reset(nodes, at, furthest);
        end = offer_all(unigram, kind, nodes, word, length, at, size);
        furthest = end > furthest ? end : furthest;
    }
}

/* Does each piece of the best path lead by more than the roundings of two paths? */
static int is_sure(const struct unigram *unigram, const struct unigram_node *nodes, size_t length)
{
    for (size_t at = length; at > 0; at = nodes[at].begin)
        if (nodes[at].lead < unigram->lead * (double)(nodes[at].depth + nodes[at].other_depth))
            return 0;
    return 1;
}

void unigram_reverse(uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        uint32_t kept = ids[i];

        ids[i] = ids[count - 1 - i];
        ids[count - 1 - i] = kept;
    }
}

/* Write the ids of the path to the end. An unknown character becomes bytes or the unknown piece. */
static size_t write_ids(const struct unigram *unigram, const struct unigram_node *nodes,
                        const uint8_t *word, size_t length, uint32_t *ids)
{
    const struct bpe *bpe = unigram->bpe;
    size_t made = 0;

    for (size_t at = length; at > 0; at = nodes[at].begin) {
        if (nodes[at].id != BPE_NONE)
            ids[made++] = nodes[at].id;
        else if (!bpe->unknown_bytes)
            ids[made++] = bpe->unknown_id;
        else
            for (size_t i = at; i-- > nodes[at].begin;)
                ids[made++] = bpe->byte_ids[word[i]];
    }
    unigram_reverse(ids, made);
    return made;
}

/* How much rounding can change a sum: half of the last bit of the largest one, and of one within a
 * word that is searched without the text before it. */
static double largest_rounding(const struct unigram *unigram)
{
    double reach = unigram_reach(unigram, UNIGRAM_SURE);
    int bits = unigram->single ? 24 : 53;

    return ldexp(1,
                 ilogb((unigram->single ? (double)UNIGRAM_RESET : SUM_MOST) + 1 + reach) - bits) +
           ldexp(1, ilogb(reach + 1) - bits + 1);
}

int unigram_finish(struct unigram *unigram, struct error *err)
{
    uint32_t count = unigram->bpe->token_count;

    unigram->scores_single = xcalloc(count + 1, sizeof(*unigram->scores_single));
    unigram->added_single = xcalloc(count + 1, sizeof(*unigram->added_single));
    for (uint32_t id = 0; id < count; id++) {
        unigram->scores_single[id] = (float)unigram->scores[id];
        unigram->added_single[id] = (float)unigram->added[id];
        unigram->positive |= unigram->added[id] > 0;
    }
    unigram->lead = largest_rounding(unigram);
    if (double_array_build(&unigram->pieces, &unigram->bpe->trie, count, unigram->scores, err) < 0)
        return -1;
    unigram_prepare_short(unigram);
    return 0;
}

size_t unigram_encode(const struct unigram *unigram, struct bpe_scratch *scratch,
                      const uint8_t *word, size_t length, uint32_t *ids, int *sure)
{
    struct unigram_node small[64], *nodes = small;

    if (unigram->scores_short && length <= UNIGRAM_SURE) {
        size_t count = unigram_encode_short(unigram, word, length, ids);

        *sure = 1;
        if (count > 0)
            return count;
    }
    if (length >= sizeof(small) / sizeof(small[0]))
        nodes = bpe_scratch_reserve(scratch, (length + 1) * sizeof(*nodes));
    if (unigram->single)
        search(unigram, SEARCH_SINGLE, nodes, word, length, 0);
    else
        search(unigram, SEARCH_FULL, nodes, word, length, 0);
    *sure = !unigram->whole || (unigram->from_space && word[0] == ' ') ||
            (length <= UNIGRAM_SURE && is_sure(unigram, nodes, length));
    return write_ids(unigram, nodes, word, length, ids);
}

size_t unigram_encode_after(const struct unigram *unigram, struct bpe_scratch *scratch,
                            const uint8_t *word, size_t length, double *score, uint32_t *ids)
{
    struct unigram_node *nodes = bpe_scratch_reserve(scratch, (length + 1) * sizeof(*nodes));

    if (unigram->single)
        search(unigram, SEARCH_SINGLE_AFTER, nodes, word, length, *score);
    else
        search(unigram, SEARCH_FULL, nodes, word, length, *score);
    *score = unigram->single ? (double)nodes[length].score.single : nodes[length].score.full;
    return write_ids(unigram, nodes, word, length, ids);
}

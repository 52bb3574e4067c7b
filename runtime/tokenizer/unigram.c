/* SPDX-License-Identifier: Apache-2.0 */
#include "unigram.h"
#include "unicode.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void unigram_clear(struct unigram *unigram)
{
    free(unigram->scores);
    free(unigram->added);
    memset(unigram, 0, sizeof(*unigram));
}

static inline double rounded(const struct unigram *unigram, double sum)
{
    return unigram->single ? (double)(float)sum : sum;
}

double unigram_add(const struct unigram *unigram, double score, uint32_t id)
{
    return rounded(unigram, score + unigram->added[id]);
}

/* Offer a piece that starts at 'begin' to the node where it ends. */
static inline void offer(struct unigram_node *node, double sum, uint32_t begin, uint32_t depth,
                         uint32_t id)
{
    if (node->begin == UINT32_MAX || sum > node->score) {
        if (node->begin != UINT32_MAX) {
            node->second = node->score;
            node->second_depth =
                node->depth > node->second_depth ? node->depth : node->second_depth;
        }
        node->score = sum;
        node->begin = begin;
        node->depth = depth;
        node->id = id;
    } else {
        if (sum > node->second)
            node->second = sum;
        if (depth > node->second_depth)
            node->second_depth = depth;
    }
}

/* All pieces that begin at 'at', where there is a character of 'size' bytes. */
static void offer_all(const struct unigram *unigram, struct unigram_node *nodes,
                      const uint8_t *word, size_t length, size_t at, size_t size)
{
    const struct trie *trie = &unigram->bpe->trie;
    uint32_t node = TRIE_ROOT, tokens = unigram->bpe->token_count;
    double before = nodes[at].score;
    uint32_t depth = nodes[at].depth + 1;
    int single = 0;

    for (size_t end = at; end < length;) {
        uint32_t id;

        node = trie_step(trie, node, word[end++]);
        if (node == TRIE_NONE)
            break;
        id = trie->values[node];
        if (id >= tokens || isnan(unigram->scores[id]))
            continue;
        offer(&nodes[end], rounded(unigram, before + unigram->scores[id]), (uint32_t)at, depth, id);
        single |= end - at == size;
    }
    if (!single)
        offer(&nodes[at + size], rounded(unigram, before + unigram->unknown_score), (uint32_t)at,
              depth, BPE_NONE);
}

/* A sum of n numbers has an error of n roundings, each at most 2^-24 of its size. A path stays the
 * best one as long as its lead exceeds the errors of both sums; half of that is used. */
static double find_limit(const struct unigram_node *nodes, size_t length)
{
    double least = DBL_MAX;

    for (size_t at = length; at > 0; at = nodes[at].begin) {
        double roundings = (double)(nodes[at].depth + nodes[at].second_depth);
        double lead = (nodes[at].score - nodes[at].second) / roundings;

        if (lead < least)
            least = lead;
    }
    /* The sum of the word itself is added. */
    return least * 8388608.0 - fabs(nodes[length].score - nodes[0].score);
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
    for (size_t i = 0; i < made / 2; i++) {
        uint32_t swap = ids[i];

        ids[i] = ids[made - 1 - i];
        ids[made - 1 - i] = swap;
    }
    return made;
}

size_t unigram_encode(const struct unigram *unigram, struct bpe_scratch *scratch,
                      const uint8_t *word, size_t length, double score, uint32_t *ids,
                      double *limit)
{
    struct unigram_node small[64], *nodes = small;

    if (length >= sizeof(small) / sizeof(small[0]))
        nodes = bpe_scratch_reserve(scratch, (length + 1) * sizeof(*nodes));
    if (!nodes)
        return SIZE_MAX;
    for (size_t i = 0; i <= length; i++) {
        nodes[i].begin = UINT32_MAX;
        nodes[i].second = -DBL_MAX;
        nodes[i].second_depth = 0;
    }
    nodes[0].score = score;
    nodes[0].depth = 0;
    for (size_t at = 0, size; at < length; at += size) {
        uint32_t point;

        size = utf8_decode(word + at, word + length, &point);
        offer_all(unigram, nodes, word, length, at, size);
    }
    *limit = find_limit(nodes, length);
    return write_ids(unigram, nodes, word, length, ids);
}

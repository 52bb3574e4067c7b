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

/* Offer a piece from 'begin' on to the node where it ends. */
static inline void offer(struct unigram_node *node, double sum, uint32_t begin, uint32_t id)
{
    if (node->begin == UINT32_MAX || sum > node->score) {
        if (node->begin != UINT32_MAX)
            node->second = node->score > node->second ? node->score : node->second;
        node->score = sum;
        node->begin = begin;
        node->id = id;
    } else if (sum > node->second) {
        node->second = sum;
    }
}

/* All pieces that begin at 'at', which is 'size' bytes long as a character. */
static void offer_all(const struct unigram *unigram, struct unigram_node *nodes,
                      const uint8_t *word, size_t length, size_t at, size_t size)
{
    const struct trie *trie = &unigram->bpe->trie;
    uint32_t node = TRIE_ROOT, tokens = unigram->bpe->token_count;
    double before = nodes[at].score;
    int single = 0;

    for (size_t end = at; end < length;) {
        uint32_t id;

        node = trie_step(trie, node, word[end++]);
        if (node == TRIE_NONE)
            break;
        id = trie->values[node];
        if (id >= tokens || isnan(unigram->scores[id]))
            continue;
        offer(&nodes[end], rounded(unigram, before + unigram->scores[id]), (uint32_t)at, id);
        single |= end - at == size;
    }
    if (!single)
        offer(&nodes[at + size], rounded(unigram, before + unigram->unknown_score), (uint32_t)at,
              BPE_NONE);
}

/* The smallest lead of a node on the way over what it did not take. */
static double smallest_lead(const struct unigram_node *nodes, size_t length)
{
    double lead = DBL_MAX;

    for (size_t at = length; at > 0; at = nodes[at].begin)
        if (nodes[at].score - nodes[at].second < lead)
            lead = nodes[at].score - nodes[at].second;
    return lead;
}

/* Each of two sums of at most 'length' numbers is wrong by that many roundings of 2^-24 of its size at
 * the most; a lead above both errors stays. */
static enum unigram_trust trust_lead(double lead, size_t length)
{
    double roundings = (double)(2 * length + 2) / 8388608.0;

    if (lead > roundings * UNIGRAM_FAR)
        return UNIGRAM_ALWAYS;
    return lead > roundings * UNIGRAM_NEAR ? UNIGRAM_OFTEN : UNIGRAM_NEVER;
}

/* Write the ids of the way to the end. An unknown character becomes bytes or the unknown piece. */
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
                      enum unigram_trust *trust)
{
    struct unigram_node small[64], *nodes = small;

    if (length >= sizeof(small) / sizeof(small[0]))
        nodes = bpe_scratch_reserve(scratch, (length + 1) * sizeof(*nodes));
    if (!nodes)
        return SIZE_MAX;
    for (size_t i = 0; i <= length; i++) {
        nodes[i].begin = UINT32_MAX;
        nodes[i].second = -DBL_MAX;
    }
    nodes[0].score = score;
    for (size_t at = 0, size; at < length; at += size) {
        uint32_t point;

        size = utf8_decode(word + at, word + length, &point);
        offer_all(unigram, nodes, word, length, at, size);
    }
    *trust = trust_lead(smallest_lead(nodes, length), length);
    return write_ids(unigram, nodes, word, length, ids);
}

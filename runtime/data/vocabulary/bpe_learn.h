/* SPDX-License-Identifier: Apache-2.0 */
/* Learn the merges of a BPE vocabulary: the most frequent adjacent pair becomes a token,
 * repeatedly. Ties are broken in favor of the smaller ids. The result is that of Hugging Face's
 * BpeTrainer, merge for merge. WordPiece is learned the same way, with a prefix on the tokens
 * inside a word. */
#ifndef MEGATRON_BPE_LEARN_H
#define MEGATRON_BPE_LEARN_H

#include "base/core/list.h"
#include "lexicon.h"
#include "lib/error.h"
#include "tokens.h"

struct bpe_rules {
    int64_t vocab_size;
    int64_t min_frequency; /* of a pair */
    const char *const *specials;
    size_t special_count;
    int byte_level;         /* words are bytes, written as GPT-2 writes them, and all 256 are in */
    int64_t limit_alphabet; /* most characters, if not byte_level; 0: all */
    const char *prefix;     /* of a token inside a word, "##"; NULL: none */
    /* Called from time to time with the number of tokens so far; NULL: not. */
    void (*moved)(void *context, int64_t tokens);
    void *context;
};

struct bpe_merge {
    uint32_t left, right;
};

/* Tokens as the files write them: specials, the alphabet, then what the merges make. */
struct bpe_learned {
    struct tokens tokens;
    LIST(struct bpe_merge) merges;
};

/* Returns 0, or -1 with 'err' set. The caller clears 'learned' in both cases. */
int bpe_learn(const struct lexicon *lexicon, const struct bpe_rules *rules,
              struct bpe_learned *learned, struct error *err);
void bpe_learned_clear(struct bpe_learned *learned);

#endif

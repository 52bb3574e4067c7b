/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding of one word: symbols, the ranks of their pairs, and the merging. A symbol is a
 * token or, in character vocabularies, a character that is part of tokens without being one. A word
 * starts as one symbol per byte (or character); of all adjacent symbols that form a pair, those of
 * the lowest rank merge first, the leftmost first if ranks are equal. */
#ifndef MEGATRON_BPE_H
#define MEGATRON_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine.h"
#include "lib/error.h"
#include "trie.h"
#include "vocabulary.h"

#define BPE_SYMBOL_LIMIT (1u << 21)
#define BPE_RANK_LIMIT   ((1u << 22) - 2)
#define BPE_NONE         UINT32_MAX

/* The initial symbols of a word. */
enum bpe_units { BPE_BYTES, BPE_CHARACTERS };

struct bpe {
    const struct engine *engine;
    enum bpe_units units;
    int whole_words;   /* a word that is a token becomes that token, regardless of its merges */
    int unknown_bytes; /* an unknown character becomes 'byte_ids', not 'unknown_id' */
    int all_tokens;    /* every token can be produced: there are no merges (Unigram) */
    int space_runs;    /* spaces merge with each other only when nothing else is left to merge */
    uint32_t unknown_id;
    uint32_t byte_ids[256];
    int drops_missing; /* BPE_BYTES: a byte need not have a token */
    int has_missing;   /* BPE_BYTES: some bytes have no token; they are dropped */

    uint32_t token_count;  /* lower symbols are tokens, and their numbers are ids */
    uint32_t symbol_count; /* all symbols */
    uint8_t *text;         /* of all symbols, one after the other */
    uint32_t *offsets;     /* symbol_count + 1 */
    struct trie trie;      /* text -> symbol; only for symbols that merges can produce */
    struct trie unmade;    /* with whole_words: tokens that their own merges do not produce */
    uint64_t unmade_filter[1024]; /* bits: can there be such a token? */

    uint64_t *pairs; /* hash table of left, right and rank + 1 */
    size_t pair_mask, pair_count;
    uint64_t *filter; /* bits: can there be such a pair? */
    int filter_shift;
    uint32_t *merged; /* rank -> symbol; BPE_NONE if several share the rank */
    uint32_t rank_count;
    int rank_is_symbol; /* 'merged' is not needed */

    uint32_t byte_symbols[256]; /* BPE_CHARACTERS: of ASCII, else BPE_NONE */
    uint32_t *byte_pairs;       /* ranks of two bytes that are symbols */
    uint16_t *character_pages;  /* BPE_CHARACTERS: code point >> 8 -> page + 1 */
    uint32_t (*characters)[256];
    size_t page_count;

    /* For long words, see bpe_linear.c. */
    uint8_t odd[65536 / 8]; /* two bytes within a token that bpe_linear.c cannot handle */
    uint32_t
        *made_at;   /* by symbol: 1 + rank of its last merge, 0 for a unit; BPE_NONE: never made */
    uint32_t *left; /* by symbol: what that merge joined */
    uint32_t *right;
    uint32_t *shorter;         /* by symbol: the longest symbol that it begins with */
    uint8_t joined[65536 / 8]; /* two bytes that are adjacent within a symbol */
    uint64_t *neighbours; /* BPE_CHARACTERS: bits by hash, of adjacent characters in a symbol */
};

/* Memory for words of any length. All zero at first. */
struct bpe_scratch {
    void *memory;
    size_t size;
};

/* Building: init, add symbols, add pairs, finish. Those that may fail return 0 or -1 with 'err'. */
void bpe_init(struct bpe *bpe, enum bpe_units units);
void bpe_clear(struct bpe *bpe);

/* Take over the tokens of a vocabulary: those of kind VOCABULARY_TOKEN; no merge produces the
 * others. A text given twice keeps its first id. In BPE_BYTES every byte must be a token. */
int bpe_set_tokens(struct bpe *bpe, const struct vocabulary *vocabulary, struct error *err);

/* Give a token a second text; for models without merges. Returns 0, or -1 like trie_insert. */
int bpe_add_text(struct bpe *bpe, const uint8_t *text, size_t length, uint32_t token);

/* The next pair, with a higher rank than all before. Their combined text must be a symbol. A pair
 * given again keeps the later rank, as in a dictionary. */
int bpe_add_pair(struct bpe *bpe, uint32_t left, uint32_t right, struct error *err);

/* All pairs whose combined text is a token, in the order of 'order' (ids, lowest rank first). If
 * ties[i] is set, token i has the same rank as the one before; NULL: no ties. */
int bpe_add_all_pairs(struct bpe *bpe, const uint32_t *order, const uint8_t *ties, size_t count,
                      struct error *err);

/* Build what encoding needs. After this the structure does not change. 'cut_spaces': words are cut
 * before every space. */
void bpe_finish(struct bpe *bpe, bool cut_spaces);

static inline const uint8_t *bpe_text(const struct bpe *bpe, uint32_t symbol, size_t *length)
{
    *length = bpe->offsets[symbol + 1] - bpe->offsets[symbol];
    return bpe->text + bpe->offsets[symbol];
}

static inline uint64_t bpe_pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 21 | right;
}

static inline uint64_t bpe_pair_hash(uint64_t key)
{
    return key * UINT64_C(0x9E3779B97F4A7C15);
}

/* The rank of a pair, or BPE_NONE. Most of the requested pairs do not exist; the filter, which
 * stays in the CPU's cache, rejects nearly all of them. */
static inline uint32_t bpe_rank(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t key = bpe_pair_key(left, right), hash = bpe_pair_hash(key), bit, entry;

    if ((left | right) >= BPE_SYMBOL_LIMIT)
        return BPE_NONE;
    if (bpe->filter) {
        bit = hash >> bpe->filter_shift;
        if (!(bpe->filter[bit >> 6] >> (bit & 63) & 1))
            return BPE_NONE;
    }
    for (size_t slot = (size_t)(hash >> 32);; slot++) {
        entry = bpe->pairs[slot & bpe->pair_mask];
        if (!entry)
            return BPE_NONE;
        if (entry >> 22 == key)
            return (uint32_t)(entry & 0x3FFFFF) - 1;
    }
}

/* Prefetch what bpe_rank will read. */
static inline void bpe_rank_prefetch(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t hash = bpe_pair_hash(bpe_pair_key(left, right));

    __builtin_prefetch(&bpe->filter[hash >> bpe->filter_shift >> 6]);
    __builtin_prefetch(&bpe->pairs[(size_t)(hash >> 32) & bpe->pair_mask]);
}

/* The token whose text is that of two symbols joined, or TRIE_NONE. */
uint32_t bpe_joint(const struct bpe *bpe, uint32_t left, uint32_t right);

/* The symbol that a pair of this rank becomes. */
static inline uint32_t bpe_merge(const struct bpe *bpe, uint32_t left, uint32_t right,
                                 uint32_t rank)
{
    uint32_t symbol;

    if (bpe->rank_is_symbol)
        return rank;
    symbol = bpe->merged[rank];
    return __builtin_expect(symbol != BPE_NONE, 1) ? symbol : bpe_joint(bpe, left, right);
}

/* The bit of two characters in 'neighbors'. */
#define BPE_NEIGHBOUR_BITS 17
static inline size_t bpe_neighbour(uint32_t first, uint32_t second)
{
    return (size_t)(((uint64_t)first << 32 | second) * UINT64_C(0x9E3779B97F4A7C15) >>
                    (64 - BPE_NEIGHBOUR_BITS));
}

/* The symbol of a character, or BPE_NONE. */
static inline uint32_t bpe_character(const struct bpe *bpe, uint32_t point)
{
    unsigned page = bpe->character_pages[point >> 8];

    return page ? bpe->characters[page - 1][point & 255] : BPE_NONE;
}

/* Can two adjacent bytes become part of one token? */
static inline int bpe_joined(const struct bpe *bpe, uint8_t first, uint8_t second)
{
    unsigned at = (unsigned)first << 8 | second;

    return bpe->joined[at >> 3] >> (at & 7) & 1;
}

/* The bit of a word in 'unmade_filter'. */
static inline unsigned bpe_unmade_bit(const uint8_t *word, size_t length)
{
    uint32_t key = word[0] | (uint32_t)word[length / 2] << 8 | (uint32_t)word[length - 1] << 16 |
                   (uint32_t)length << 24;

    return key * UINT32_C(0x9E3779B1) >> 16;
}

/* The token that a word becomes although its merges do not produce it, or BPE_NONE. */
static inline uint32_t bpe_whole_word(const struct bpe *bpe, const uint8_t *word, size_t length)
{
    unsigned bit;
    uint32_t token;

    if (!bpe->whole_words)
        return BPE_NONE;
    bit = bpe_unmade_bit(word, length);
    if (!(bpe->unmade_filter[bit >> 6] >> (bit & 63) & 1))
        return BPE_NONE;
    token = trie_find(&bpe->unmade, word, length);

    return token < bpe->token_count ? token : BPE_NONE;
}

/* The first position after 'at' at which merges can be cut without changing them, or the end. */
size_t bpe_cut(const struct bpe *bpe, const uint8_t *word, size_t length, size_t at);

static inline void bpe_mark(uint8_t *map, const uint8_t *text, size_t length)
{
    for (size_t i = 1; i < length; i++) {
        unsigned at = (unsigned)text[i - 1] << 8 | text[i];

        map[at >> 3] |= (uint8_t)(1 << (at & 7));
    }
}

/* Write the ids of a word to 'ids', which has room for 3 * length. Returns their number. */
size_t bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *word,
                  size_t length, uint32_t *ids);

/* Within bpe_*.c: merge 'count' symbols in place, or encode a word of known symbols. */
size_t bpe_merge_heap(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t *symbols,
                      size_t count);
void bpe_put_pair(struct bpe *bpe, uint32_t left, uint32_t right, uint32_t rank);
void bpe_linear_prepare(struct bpe *bpe);
int bpe_linear_suits(const struct bpe *bpe, const uint8_t *word, size_t length);
size_t bpe_linear_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *word,
                         size_t length, uint32_t *symbols);
void *bpe_scratch_reserve(struct bpe_scratch *scratch, size_t size);
void bpe_scratch_clear(struct bpe_scratch *scratch);

#define BPE_TRACED 4096 /* units of the longest token whose merges are examined in advance */
#define BPE_SMALL  15   /* bytes of a word that the engine encodes */
#define BPE_SHORT  64   /* symbols up to which it merges */

#endif

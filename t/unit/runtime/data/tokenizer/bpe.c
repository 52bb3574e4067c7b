/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding of random words by random vocabularies, against the definition itself: of all
 * pairs that may merge take the lowest rank, the leftmost of equals, until there is none. */
#include "tap.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/words.h"

#include <stdlib.h>

#define LONGEST 400
#define MOST    200

static uint64_t state = 88172645463325252u;

static unsigned draw(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

struct pair {
    uint32_t left, right, rank, symbol;
};

static struct pair pairs[MOST * 40];
static size_t pair_count;
static uint8_t texts[256 + MOST][64];
static uint32_t lengths[256 + MOST];
static uint32_t token_count;

static uint32_t find_text(const uint8_t *text, uint32_t length)
{
    for (uint32_t i = 0; i < token_count; i++)
        if (lengths[i] == length && memcmp(texts[i], text, length) == 0)
            return i;
    return BPE_NONE;
}

/* The definition. A pair given twice has its later rank. */
static size_t reference(const uint8_t *word, size_t length, uint32_t *symbols)
{
    for (size_t i = 0; i < length; i++)
        symbols[i] = word[i];
    for (;;) {
        const struct pair *best = NULL;
        size_t at = 0;

        for (size_t i = 0; i + 1 < length; i++) {
            const struct pair *found = NULL;

            for (size_t k = 0; k < pair_count; k++)
                if (pairs[k].left == symbols[i] && pairs[k].right == symbols[i + 1])
                    found = &pairs[k];
            if (found && (!best || found->rank < best->rank)) {
                best = found;
                at = i;
            }
        }
        if (!best)
            return length;
        symbols[at] = best->symbol;
        memmove(symbols + at + 1, symbols + at + 2, (length - at - 2) * sizeof(*symbols));
        length--;
    }
}

static void add_token(uint32_t left, uint32_t right)
{
    uint32_t length = lengths[left] + lengths[right];

    if (length > 60)
        return;
    memcpy(texts[token_count], texts[left], lengths[left]);
    memcpy(texts[token_count] + lengths[left], texts[right], lengths[right]);
    lengths[token_count] = length;
    if (find_text(texts[token_count], length) == BPE_NONE)
        token_count++;
}

static uint32_t draw_symbol(unsigned letters)
{
    return token_count == 256 || draw(3) == 0 ? 'a' + draw(letters) : 256 + draw(token_count - 256);
}

/* Tokens joined at random from those before. */
static void draw_tokens(unsigned letters, unsigned wanted)
{
    token_count = 256;
    for (unsigned i = 0; i < 256; i++) {
        texts[i][0] = (uint8_t)i;
        lengths[i] = 1;
    }
    for (unsigned i = 0; i < wanted; i++)
        add_token(draw_symbol(letters), draw_symbol(letters));
}

/* A list of merges in any order, as merges.txt. */
static int build_list(struct bpe *bpe, unsigned letters, struct error *err)
{
    pair_count = 0;
    for (unsigned i = 0; i < 3 * MOST; i++) {
        uint32_t left = draw_symbol(letters), right = draw_symbol(letters), symbol;
        uint8_t text[128];

        memcpy(text, texts[left], lengths[left]);
        memcpy(text + lengths[left], texts[right], lengths[right]);
        symbol = find_text(text, lengths[left] + lengths[right]);
        if (symbol == BPE_NONE)
            continue;
        if (bpe_add_pair(bpe, left, right, err) < 0)
            return -1;
        pairs[pair_count++] = (struct pair){left, right, bpe->rank_count - 1, symbol};
    }
    return 0;
}

/* Every pair that makes a token, in a random or rising order, with or without ties. */
static int build_all(struct bpe *bpe, int rising, int tied, struct error *err)
{
    uint32_t order[MOST], ranks[MOST];
    uint8_t ties[MOST];
    uint32_t count = token_count - 256;

    for (uint32_t i = 0; i < count; i++)
        order[i] = 256 + i;
    for (uint32_t i = count; !rising && i-- > 1;) {
        uint32_t other = draw(i + 1), kept = order[i];

        order[i] = order[other];
        order[other] = kept;
    }
    pair_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *text = texts[order[i]];
        uint32_t length = lengths[order[i]];

        ties[i] = i > 0 && tied && draw(4) == 0;
        ranks[i] = ties[i] ? ranks[i - 1] : i;
        for (uint32_t cut = 1; cut < length; cut++) {
            uint32_t left = find_text(text, cut), right = find_text(text + cut, length - cut);

            if (left != BPE_NONE && right != BPE_NONE)
                pairs[pair_count++] = (struct pair){left, right, ranks[i], order[i]};
        }
    }
    return bpe_add_all_pairs(bpe, order, ties, count, err);
}

/* The way of short words, where it takes one. */
static int small_agrees(const struct bpe *bpe, const uint8_t *word, size_t length,
                        const uint32_t *expected, size_t wanted)
{
    uint8_t padded[32] = {0};
    uint32_t got[32];
    size_t made;

    if (length > WORD_SHORT)
        return 1;
    memcpy(padded, word, length);
    made = bpe->engine->small(bpe, padded, length, got);
    if (made == 0 || (made == wanted && memcmp(got, expected, made * sizeof(*got)) == 0))
        return 1;
    diag("%.*s as a short word: %zu ids, expected %zu", (int)length, (const char *)word, made,
         wanted);
    return 0;
}

/* The pieces of a word that is cut. */
static int cuts_agree(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *word,
                      size_t length, const uint32_t *expected, size_t wanted)
{
    uint32_t got[3 * LONGEST];
    size_t begin = 0, made = 0;

    for (size_t at = bpe_cut(bpe, word, length, 0); begin < length;
         at = bpe_cut(bpe, word, length, at)) {
        made += bpe_encode(bpe, scratch, word + begin, at - begin, got + made);
        begin = at;
    }
    if (made == wanted && memcmp(got, expected, made * sizeof(*got)) == 0)
        return 1;
    diag("%.*s in pieces: %zu ids, expected %zu", (int)length, (const char *)word, made, wanted);
    return 0;
}

static int words_agree(const struct bpe *bpe, struct bpe_scratch *scratch, unsigned letters)
{
    uint8_t word[LONGEST];
    uint32_t expected[LONGEST], got[3 * LONGEST];
    size_t length = 1 + draw(draw(4) == 0 ? LONGEST : 24), wanted, made;
    unsigned shape = draw(4);

    for (size_t i = 0; i < length; i++)
        word[i] = (uint8_t)('a' + (shape == 0 ? 0 : shape == 1 ? i % letters : draw(letters)));
    wanted = reference(word, length, expected);
    made = bpe_encode(bpe, scratch, word, length, got);
    if (made != wanted || memcmp(got, expected, made * sizeof(*got)) != 0) {
        diag("%.*s: %zu ids, expected %zu", (int)length, (const char *)word, made, wanted);
        return 0;
    }
    return small_agrees(bpe, word, length, expected, wanted) &&
           cuts_agree(bpe, scratch, word, length, expected, wanted);
}

static void test_random(const char *name, int kind, int rounds)
{
    struct bpe_scratch scratch = {0};
    int good = 0, words = 0, linear = 0;

    for (int round = 0; round < rounds; round++) {
        unsigned letters = 1 + draw(5);
        struct vocabulary vocabulary = {0};
        struct error err = {.text = ""};
        struct bpe bpe;

        draw_tokens(letters, 1 + draw(draw(2) ? 12 : MOST - 1));
        for (uint32_t i = 0; i < token_count; i++)
            vocabulary_set(&vocabulary, i, texts[i], lengths[i], VOCABULARY_TOKEN, &err);
        bpe_init(&bpe, BPE_BYTES);
        if (bpe_set_tokens(&bpe, &vocabulary, &err) < 0 ||
            (kind == 0 ? build_list(&bpe, letters, &err)
                       : build_all(&bpe, kind == 1, kind == 3, &err)) < 0) {
            ok(0, "%s: %s", name, err.text);
            return;
        }
        vocabulary_clear(&vocabulary);
        bpe_finish(&bpe, false);
        linear += bpe_linear_suits(&bpe, (const uint8_t *)"aabbaccabcaa", 12);
        for (int i = 0; i < 12; i++, words++)
            good += words_agree(&bpe, &scratch, letters);
        bpe_clear(&bpe);
    }
    bpe_scratch_clear(&scratch);
    diag("%d of %d vocabularies suit linear encoding", linear, rounds);
    is_int(good, words, name);
}

/* Whatever the cache holds or has dropped, a word found is the word asked for. */
static void test_words(void)
{
    struct words words;
    int good = 1;

    ok(words_init(&words, 65536) == 0, "a cache");
    for (int i = 0; i < 200000; i++) {
        uint8_t word[16] = {0};
        size_t length = 1 + draw(15);
        uint64_t low, high;
        uint32_t ids[7];
        struct word_short *set;

        for (size_t k = 0; k < length; k++)
            word[k] = (uint8_t)draw(4);
        for (int k = 0; k < 7; k++)
            ids[k] = (uint32_t)length * 1000 + word[0] * 100 + (uint32_t)k;
        word_short_key(word, length, 16, &low, &high);
        set = words.shorts + word_short_set(&words, low, high);
        for (int way = 0; way < 2; way++)
            if (set[way].low == low && set[way].high == high) {
                uint16_t first;

                memcpy(&first, set[way].ids, 2);
                good &= first == ids[0] && set[way].count == 7;
            }
        words_put_short(&words, low, high, ids, 7, 0, 0);
    }
    ok(good, "finds only what was put under the same word");
    words_clear(&words);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : repetitions(80);

    if (argc > 2)
        state ^= strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15u;
    test_random("merge lists in any order", 0, rounds);
    test_random("all pairs, rising ranks", 1, rounds);
    test_random("all pairs, ranks in any order", 2, rounds);
    test_random("all pairs, ranks in any order and ties", 3, rounds);
    test_words();
    return done_testing();
}

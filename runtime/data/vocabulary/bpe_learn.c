/* SPDX-License-Identifier: Apache-2.0 */
/* A priority queue holds the pairs by count, each with the words that it occurs in. A merge
 * rewrites only these words and queues the pairs that it creates. The counts of other pairs may
 * fall in the meantime; a stale entry at the head of the queue is reinserted with its current
 * count. */
#include "config.h"
#include "bpe_private.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define NO_PAIR UINT64_MAX

enum { FIRST_PAIRS = 1 << 16, TELL_EVERY = 256 };

/* --- Pairs ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t key)
{
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return key ^ key >> 32;
}

static struct bpe_pair *slot_of(struct bpe_pair *pairs, size_t capacity, uint64_t key)
{
    size_t at = mix(key) & (capacity - 1);

    while (pairs[at].key != key && pairs[at].key != NO_PAIR)
        at = (at + 1) & (capacity - 1);
    return &pairs[at];
}

static void grow_pairs(struct bpe_learning *l)
{
    size_t capacity = l->pair_capacity ? l->pair_capacity * 2 : FIRST_PAIRS;
    struct bpe_pair *pairs = xmalloc(capacity * sizeof(*pairs));

    for (size_t i = 0; i < capacity; i++)
        pairs[i] = (struct bpe_pair){.key = NO_PAIR};
    for (size_t i = 0; i < l->pair_capacity; i++)
        if (l->pairs[i].key != NO_PAIR)
            *slot_of(pairs, capacity, l->pairs[i].key) = l->pairs[i];
    free(l->pairs);
    l->pairs = pairs;
    l->pair_capacity = capacity;
}

/* The entry of a pair; a new one has count 0. */
static struct bpe_pair *pair_of(struct bpe_learning *l, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    struct bpe_pair *pair;

    if (l->pair_count * 2 >= l->pair_capacity)
        grow_pairs(l);
    pair = slot_of(l->pairs, l->pair_capacity, key);
    if (pair->key == NO_PAIR) {
        *pair = (struct bpe_pair){.key = key};
        l->pair_count++;
    }
    return pair;
}

/* The pair occurs 'times' more, in 'word'. */
static void add_pair(struct bpe_learning *l, uint32_t left, uint32_t right, uint32_t word,
                     int64_t times)
{
    struct bpe_pair *pair = pair_of(l, left, right);
    struct bpe_occurrences *occurrences;

    if (pair->round != l->round) {
        pair->round = l->round;
        pair->occurrences = (uint32_t)l->occurrences.count;
        *list_add(&l->occurrences) = (struct bpe_occurrences){0};
        *list_add(&l->fresh) = (struct bpe_fresh){pair->key, pair->occurrences};
    }
    pair->count += times;
    occurrences = &l->occurrences.items[pair->occurrences];
    if (occurrences->words.count == 0 ||
        occurrences->words.items[occurrences->words.count - 1] != word)
        *list_add(&occurrences->words) = word;
}

/* --- Queue ----------------------------------------------------------------------------------- */

static int comes_before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void sift_down(struct bpe_learning *l, struct bpe_candidate candidate)
{
    size_t at = 0, child;

    for (; (child = 2 * at + 1) < l->queue.count; at = child) {
        if (child + 1 < l->queue.count &&
            comes_before(&l->queue.items[child + 1], &l->queue.items[child]))
            child++;
        if (!comes_before(&l->queue.items[child], &candidate))
            break;
        l->queue.items[at] = l->queue.items[child];
    }
    l->queue.items[at] = candidate;
}

static void push(struct bpe_learning *l, struct bpe_candidate candidate)
{
    size_t at = l->queue.count;

    list_reserve(&l->queue, 1);
    l->queue.count++;
    for (; at > 0 && comes_before(&candidate, &l->queue.items[(at - 1) / 2]); at = (at - 1) / 2)
        l->queue.items[at] = l->queue.items[(at - 1) / 2];
    l->queue.items[at] = candidate;
}

/* Queue the pairs that this merge has created. */
static void push_fresh(struct bpe_learning *l)
{
    for (size_t i = 0; i < l->fresh.count; i++) {
        const struct bpe_fresh *fresh = &l->fresh.items[i];
        int64_t count = slot_of(l->pairs, l->pair_capacity, fresh->key)->count;

        if (count > 0)
            push(l, (struct bpe_candidate){count, fresh->key, fresh->occurrences});
        else
            list_free(&l->occurrences.items[fresh->occurrences].words);
    }
    l->fresh.count = 0;
    l->round++;
}

/* --- Merges ---------------------------------------------------------------------------------- */

static void count_pairs(struct bpe_learning *l)
{
    l->round = 1;
    for (size_t i = 0; i < l->word_count; i++) {
        const struct bpe_word *word = &l->words[i];
        const uint32_t *symbols = l->symbols + word->offset;

        for (uint64_t k = 0; k + 1 < word->length; k++)
            add_pair(l, symbols[k], symbols[k + 1], (uint32_t)i, word->times);
    }
    push_fresh(l);
}

/* Write 'made' for each 'left' that 'right' follows. A pair that is merged keeps its own count: it
 * only matters for one that comes up again later. */
static void merge_word(struct bpe_learning *l, uint32_t number, uint64_t key, uint32_t made)
{
    struct bpe_word *word = &l->words[number];
    uint32_t *symbols = l->symbols + word->offset, left = (uint32_t)(key >> 32),
             right = (uint32_t)key;
    uint64_t to = 0;

    for (uint64_t at = 0; at < word->length; at++) {
        if (symbols[at] != left || at + 1 == word->length || symbols[at + 1] != right) {
            symbols[to++] = symbols[at];
            continue;
        }
        if (to > 0) {
            pair_of(l, symbols[to - 1], left)->count -= word->times;
            add_pair(l, symbols[to - 1], made, number, word->times);
        }
        at++;
        if (at + 1 < word->length) {
            pair_of(l, right, symbols[at + 1])->count -= word->times;
            add_pair(l, made, symbols[at + 1], number, word->times);
        }
        symbols[to++] = made;
    }
    word->length = to;
}

/* The token that a pair makes: its parts, the second without the prefix. */
static uint32_t make_token(struct bpe_learning *l, uint64_t key)
{
    const struct tokens *tokens = &l->learned->tokens;
    const char *prefix = l->rules->prefix ? l->rules->prefix : "";
    size_t left_size, right_size, skipped = strlen(prefix);
    const char *left = token_text(tokens, key >> 32, &left_size);
    const char *right = token_text(tokens, (uint32_t)key, &right_size);
    struct bytes text = {0};
    size_t id;

    if (right_size < skipped || memcmp(right, prefix, skipped) != 0)
        skipped = 0;
    bytes_put(&text, left, left_size);
    bytes_put(&text, right + skipped, right_size - skipped);
    id = tokens_add(&l->learned->tokens, text.data, text.size);
    bytes_clear(&text);
    return (uint32_t)id;
}

static void apply(struct bpe_learning *l, const struct bpe_candidate *best)
{
    uint32_t made = make_token(l, best->key);

    *list_add(&l->learned->merges) =
        (struct bpe_merge){(uint32_t)(best->key >> 32), (uint32_t)best->key};
    /* The list of occurrences may move while words are merged. */
    for (size_t i = 0; i < l->occurrences.items[best->occurrences].words.count; i++)
        merge_word(l, l->occurrences.items[best->occurrences].words.items[i], best->key, made);
    list_free(&l->occurrences.items[best->occurrences].words);
    push_fresh(l);
}

static void merge_all(struct bpe_learning *l)
{
    const struct bpe_rules *rules = l->rules;
    int64_t least = rules->min_frequency > 1 ? rules->min_frequency : 1;

    while ((int64_t)l->learned->tokens.count < rules->vocab_size && l->queue.count > 0) {
        struct bpe_candidate best = l->queue.items[0];
        int64_t count = slot_of(l->pairs, l->pair_capacity, best.key)->count;

        if (count != best.count) {
            best.count = count;
            sift_down(l, best);
            continue;
        }
        if (count < least)
            break;
        l->queue.count--;
        if (l->queue.count > 0)
            sift_down(l, l->queue.items[l->queue.count]);
        apply(l, &best);
        if (rules->moved && l->learned->merges.count % TELL_EVERY == 0)
            rules->moved(rules->context, (int64_t)l->learned->tokens.count);
    }
}

int bpe_learn(const struct lexicon *lexicon, const struct bpe_rules *rules,
              struct bpe_learned *learned, struct error *err)
{
    struct bpe_learning l = {.rules = rules, .learned = learned};

    memset(learned, 0, sizeof(*learned));
    if (lexicon->count >= UINT32_MAX)
        return error_set(err, "%zu different words are too many; lower --max-words",
                         lexicon->count);
    bpe_add_alphabet(&l, lexicon);
    if ((int64_t)learned->tokens.count > rules->vocab_size)
        return error_set_code(
            err, ERROR_USAGE,
            "a vocabulary of %lld tokens is too small: the special tokens and the "
            "alphabet already take %zu; use a larger vocabulary",
            (long long)rules->vocab_size, learned->tokens.count);
    bpe_write_words(&l, lexicon);
    grow_pairs(&l);
    count_pairs(&l);
    merge_all(&l);
    for (size_t i = 0; i < l.occurrences.count; i++)
        list_free(&l.occurrences.items[i].words);
    list_free(&l.occurrences);
    list_free(&l.fresh);
    list_free(&l.queue);
    free(l.pairs);
    free(l.words);
    free(l.symbols);
    return 0;
}

void bpe_learned_clear(struct bpe_learned *learned)
{
    tokens_clear(&learned->tokens);
    list_free(&learned->merges);
    memset(learned, 0, sizeof(*learned));
}

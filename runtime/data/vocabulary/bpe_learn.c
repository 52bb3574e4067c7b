/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs wait in a queue by their counts, each with the words that it occurs in. A merge rewrites
 * these words alone and puts the pairs that it makes into the queue. Counts of other pairs fall
 * meanwhile; that is seen when they come out of the queue, and they go back in with the new count.
 */
#include "config.h"
#include "bpe_private.h"

#include <stdlib.h>
#include <string.h>

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

static int grow_pairs(struct bpe_learning *l)
{
    size_t capacity = l->pair_capacity ? l->pair_capacity * 2 : FIRST_PAIRS;
    struct bpe_pair *pairs = malloc(capacity * sizeof(*pairs));

    if (!pairs)
        return -1;
    for (size_t i = 0; i < capacity; i++)
        pairs[i] = (struct bpe_pair){.key = NO_PAIR};
    for (size_t i = 0; i < l->pair_capacity; i++)
        if (l->pairs[i].key != NO_PAIR)
            *slot_of(pairs, capacity, l->pairs[i].key) = l->pairs[i];
    free(l->pairs);
    l->pairs = pairs;
    l->pair_capacity = capacity;
    return 0;
}

/* The entry of a pair; a new one has count 0. NULL if memory runs out. */
static struct bpe_pair *pair_of(struct bpe_learning *l, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    struct bpe_pair *pair;

    if (l->pair_count * 2 >= l->pair_capacity && grow_pairs(l) < 0) {
        l->failed = 1;
        return NULL;
    }
    pair = slot_of(l->pairs, l->pair_capacity, key);
    if (pair->key == NO_PAIR) {
        *pair = (struct bpe_pair){.key = key};
        l->pair_count++;
    }
    return pair;
}

/* --- Places ---------------------------------------------------------------------------------- */

/* Make room for one more element; NULL if memory runs out. */
static void *grown(void *items, size_t count, size_t *capacity, size_t size)
{
    size_t more = *capacity ? *capacity * 2 : 8;
    void *larger;

    if (count < *capacity)
        return items;
    larger = realloc(items, more * size);
    if (larger)
        *capacity = more;
    return larger;
}

static int begin_occurrences(struct bpe_learning *l, struct bpe_pair *pair)
{
    size_t capacity = l->fresh_capacity;
    struct bpe_occurrences *occurrences =
        grown(l->occurrences, l->occurrence_count, &l->occurrence_capacity, sizeof(*occurrences));
    uint32_t *fresh = grown(l->fresh, l->fresh_count, &l->fresh_capacity, sizeof(*fresh));
    uint64_t *keys = grown(l->fresh_keys, l->fresh_count, &capacity, sizeof(*keys));

    l->occurrences = occurrences ? occurrences : l->occurrences;
    l->fresh = fresh ? fresh : l->fresh;
    l->fresh_keys = keys ? keys : l->fresh_keys;
    if (!occurrences || !fresh || !keys)
        return -1;
    pair->round = l->round;
    pair->occurrences = (uint32_t)l->occurrence_count;
    l->occurrences[l->occurrence_count] = (struct bpe_occurrences){NULL, 0, 0};
    l->fresh[l->fresh_count] = pair->occurrences;
    l->fresh_keys[l->fresh_count] = pair->key;
    l->occurrence_count++;
    l->fresh_count++;
    return 0;
}

/* The pair occurs 'times' more, in 'word'. */
static void add_pair(struct bpe_learning *l, uint32_t left, uint32_t right, uint32_t word,
                     int64_t times)
{
    struct bpe_pair *pair = pair_of(l, left, right);
    struct bpe_occurrences *occurrences;
    uint32_t *words;

    if (!pair || (pair->round != l->round && begin_occurrences(l, pair) < 0)) {
        l->failed = 1;
        return;
    }
    pair->count += times;
    occurrences = &l->occurrences[pair->occurrences];
    if (occurrences->count > 0 && occurrences->words[occurrences->count - 1] == word)
        return;
    words = grown(occurrences->words, occurrences->count, &occurrences->capacity, sizeof(*words));
    if (!words) {
        l->failed = 1;
        return;
    }
    occurrences->words = words;
    words[occurrences->count++] = word;
}

/* --- Queue ----------------------------------------------------------------------------------- */

static int comes_before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void sift_down(struct bpe_learning *l, struct bpe_candidate candidate)
{
    size_t at = 0, child;

    for (; (child = 2 * at + 1) < l->queue_count; at = child) {
        if (child + 1 < l->queue_count && comes_before(&l->queue[child + 1], &l->queue[child]))
            child++;
        if (!comes_before(&l->queue[child], &candidate))
            break;
        l->queue[at] = l->queue[child];
    }
    l->queue[at] = candidate;
}

static int push(struct bpe_learning *l, struct bpe_candidate candidate)
{
    struct bpe_candidate *queue =
        grown(l->queue, l->queue_count, &l->queue_capacity, sizeof(*queue));
    size_t at = l->queue_count;

    if (!queue)
        return -1;
    l->queue = queue;
    for (; at > 0 && comes_before(&candidate, &queue[(at - 1) / 2]); at = (at - 1) / 2)
        queue[at] = queue[(at - 1) / 2];
    queue[at] = candidate;
    l->queue_count++;
    return 0;
}

static void drop_occurrences(struct bpe_learning *l, uint32_t number)
{
    free(l->occurrences[number].words);
    l->occurrences[number] = (struct bpe_occurrences){NULL, 0, 0};
}

/* Put the pairs that have come up into the queue. */
static int push_fresh(struct bpe_learning *l)
{
    for (size_t i = 0; i < l->fresh_count && !l->failed; i++) {
        uint64_t key = l->fresh_keys[i];
        int64_t count = slot_of(l->pairs, l->pair_capacity, key)->count;

        if (count <= 0)
            drop_occurrences(l, l->fresh[i]);
        else if (push(l, (struct bpe_candidate){count, key, l->fresh[i]}) < 0)
            l->failed = 1;
    }
    l->fresh_count = 0;
    l->round++;
    return l->failed ? -1 : 0;
}

/* --- Merges ---------------------------------------------------------------------------------- */

static int count_pairs(struct bpe_learning *l)
{
    l->round = 1;
    for (size_t i = 0; i < l->word_count && !l->failed; i++) {
        const struct bpe_word *word = &l->words[i];
        const uint32_t *symbols = l->symbols + word->offset;

        for (uint64_t k = 0; k + 1 < word->length; k++)
            add_pair(l, symbols[k], symbols[k + 1], (uint32_t)i, word->times);
    }
    return l->failed ? -1 : push_fresh(l);
}

static void lose_pair(struct bpe_learning *l, uint32_t left, uint32_t right, int64_t times)
{
    struct bpe_pair *pair = pair_of(l, left, right);

    if (pair)
        pair->count -= times;
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
            lose_pair(l, symbols[to - 1], left, word->times);
            add_pair(l, symbols[to - 1], made, number, word->times);
        }
        at++;
        if (at + 1 < word->length) {
            lose_pair(l, right, symbols[at + 1], word->times);
            add_pair(l, made, symbols[at + 1], number, word->times);
        }
        symbols[to++] = made;
    }
    word->length = to;
}

/* The token that a pair makes: its parts, the second without the prefix. */
static int64_t make_token(struct bpe_learning *l, uint64_t key, struct error *err)
{
    const struct tokens *tokens = &l->learned->tokens;
    const char *prefix = l->rules->prefix ? l->rules->prefix : "";
    size_t left_size, right_size, skipped = strlen(prefix);
    const char *left = token_text(tokens, key >> 32, &left_size);
    const char *right = token_text(tokens, (uint32_t)key, &right_size);
    struct bytes text = {0};
    int64_t id;

    if (right_size < skipped || memcmp(right, prefix, skipped) != 0)
        skipped = 0;
    bytes_put(&text, left, left_size);
    bytes_put(&text, right + skipped, right_size - skipped);
    id = text.failed ? error_set(err, "out of memory")
                     : tokens_add(&l->learned->tokens, text.data, text.size, err);
    bytes_clear(&text);
    return id;
}

static int apply(struct bpe_learning *l, const struct bpe_candidate *best, struct error *err)
{
    struct bpe_learned *learned = l->learned;
    struct bpe_merge *merges =
        grown(learned->merges, learned->merge_count, &learned->merge_capacity, sizeof(*merges));
    int64_t made;

    if (!merges)
        return error_set(err, "out of memory");
    learned->merges = merges;
    made = make_token(l, best->key, err);
    if (made < 0)
        return -1;
    merges[learned->merge_count++] =
        (struct bpe_merge){(uint32_t)(best->key >> 32), (uint32_t)best->key};
    for (size_t i = 0; i < l->occurrences[best->occurrences].count && !l->failed; i++)
        merge_word(l, l->occurrences[best->occurrences].words[i], best->key, (uint32_t)made);
    drop_occurrences(l, best->occurrences);
    return l->failed || push_fresh(l) < 0 ? error_set(err, "out of memory") : 0;
}

static int merge_all(struct bpe_learning *l, struct error *err)
{
    const struct bpe_rules *rules = l->rules;
    int64_t least = rules->min_frequency > 1 ? rules->min_frequency : 1;

    while ((int64_t)l->learned->tokens.count < rules->vocab_size && l->queue_count > 0) {
        struct bpe_candidate best = l->queue[0];
        int64_t count = slot_of(l->pairs, l->pair_capacity, best.key)->count;

        if (count != best.count) {
            best.count = count;
            sift_down(l, best);
            continue;
        }
        if (count < least)
            break;
        l->queue_count--;
        if (l->queue_count > 0)
            sift_down(l, l->queue[l->queue_count]);
        if (apply(l, &best, err) < 0)
            return -1;
        if (rules->moved && l->learned->merge_count % TELL_EVERY == 0)
            rules->moved(rules->context, (int64_t)l->learned->tokens.count);
    }
    return 0;
}

static void clear(struct bpe_learning *l)
{
    for (size_t i = 0; i < l->occurrence_count; i++)
        free(l->occurrences[i].words);
    free(l->occurrences);
    free(l->fresh);
    free(l->fresh_keys);
    free(l->queue);
    free(l->pairs);
    free(l->words);
    free(l->symbols);
}

int bpe_learn(const struct lexicon *lexicon, const struct bpe_rules *rules,
              struct bpe_learned *learned, struct error *err)
{
    struct bpe_learning l = {.rules = rules, .learned = learned};
    int rc;

    memset(learned, 0, sizeof(*learned));
    if (lexicon->count >= UINT32_MAX) {
        error_set(err, "%zu different words are too many", lexicon->count);
        return error_append(err, "; lower --max-words");
    }
    rc = bpe_add_alphabet(&l, lexicon, err);
    if (rc == 0 && (int64_t)learned->tokens.count > rules->vocab_size)
        rc = error_set_code(err, ERROR_USAGE,
                            "a vocabulary of %lld tokens is too small: the special tokens and the "
                            "alphabet already take %zu; use a larger vocabulary",
                            (long long)rules->vocab_size, learned->tokens.count);
    if (rc == 0)
        rc = bpe_write_words(&l, lexicon, err);
    if (rc == 0 && (grow_pairs(&l) < 0 || count_pairs(&l) < 0)) {
        error_set(err, "out of memory for %zu words", lexicon->count);
        rc = error_append(err, "; lower --max-words");
    }
    if (rc == 0)
        rc = merge_all(&l, err);
    clear(&l);
    return rc;
}

void bpe_learned_clear(struct bpe_learned *learned)
{
    tokens_clear(&learned->tokens);
    free(learned->merges);
    memset(learned, 0, sizeof(*learned));
}

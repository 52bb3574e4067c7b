/* SPDX-License-Identifier: Apache-2.0 */
#include "bert.h"
#include "mt19937.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

enum { MOST_NGRAM = 3 };

/* --- The pair -------------------------------------------------------------------------------- */

struct half {
    const int32_t *at;
    int64_t count;
};

/* Take tokens from the longer half, at either end, until both together have 'target'. */
static void trim(struct half *a, struct half *b, int64_t target, struct mt19937 *rng)
{
    while (a->count + b->count > target) {
        struct half *longer = a->count > b->count ? a : b;

        if (mt19937_double(rng) < 0.5)
            longer->at++;
        longer->count--;
    }
}

static void put_half(struct bert_sample *s, const struct half *half, int32_t type, int32_t end)
{
    for (int64_t i = 0; i < half->count; i++) {
        s->types[s->count] = type;
        s->tokens[s->count++] = half->at[i];
    }
    s->types[s->count] = type;
    s->tokens[s->count++] = end;
}

static void put_pair(const struct masked_config *c, const int32_t *text, const int64_t *ends,
                     int64_t count, int64_t target, struct mt19937 *rng, struct bert_sample *s)
{
    struct half a = {text, ends[count - 1]}, b = {text, 0};

    if (c->binary) {
        int64_t pivot = count >= 3 ? 1 + (int64_t)mt19937_interval(rng, (uint64_t)count - 2) : 1;

        a.count = ends[pivot - 1];
        b.at = text + a.count;
        b.count = ends[count - 1] - a.count;
        s->is_random = mt19937_double(rng) < 0.5;
    }
    if (s->is_random) {
        struct half kept = a;

        a = b;
        b = kept;
    }
    trim(&a, &b, target, rng);
    s->types[0] = 0;
    s->tokens[0] = c->bos;
    s->count = 1;
    put_half(s, &a, 0, c->sep);
    if (b.count > 0)
        put_half(s, &b, 1, c->sep);
}

/* --- Masks ----------------------------------------------------------------------------------- */

/* The words of a sample: word i is tokens places[begins[i]] and so on, lengths[i] of them. */
struct words {
    int32_t *places, *begins, *lengths;
    uint32_t *order;
    int64_t count;
};

static void find_words(const struct masked_config *c, const struct bert_sample *s, struct words *w)
{
    int32_t found = 0;

    for (int64_t i = 0; i < s->count; i++) {
        int32_t token = s->tokens[i];

        if (token == c->bos || token == c->sep)
            continue;
        /* A piece belongs to the word before it, even beyond a [SEP]: as in Megatron. */
        if (w->count == 0 || !c->mask.begins || c->mask.begins[token]) {
            w->begins[w->count] = found;
            w->lengths[w->count++] = 0;
        }
        w->places[found++] = (int32_t)i;
        w->lengths[w->count - 1]++;
    }
    for (int64_t i = 0; i < w->count; i++)
        w->order[i] = (uint32_t)i;
}

/* The length of an n-gram, with probabilities 1/n. */
static int draw_ngram(struct mt19937 *rng)
{
    static const double weights[MOST_NGRAM] = {1.0, 1.0 / 2, 1.0 / 3};
    double total = 0, p[MOST_NGRAM], sum = 0, cumulated[MOST_NGRAM], value, again = 0;
    int n = 0;

    for (int i = 0; i < MOST_NGRAM; i++)
        total += weights[i];
    for (int i = 0; i < MOST_NGRAM; i++)
        again += p[i] = weights[i] / total;
    for (int i = 0; i < MOST_NGRAM; i++)
        cumulated[i] = sum += p[i] / again;
    value = mt19937_double(rng);
    while (n < MOST_NGRAM - 1 && cumulated[n] / sum <= value)
        n++;
    return n + 1;
}

static void mask_token(const struct masked_config *c, struct bert_sample *s, int64_t at,
                       struct mt19937 *rng)
{
    s->labels[at] = s->tokens[at];
    if (mt19937_double(rng) < 0.8)
        s->tokens[at] = c->mask.mask;
    else if (mt19937_double(rng) >= 0.5)
        s->tokens[at] = (int32_t)mt19937_interval(rng, (uint64_t)c->mask.vocabulary - 1);
}

/* Tokens of 'n' words from 'word' on, as far as there are. */
static int64_t ngram_tokens(const struct words *w, uint32_t word, int n)
{
    int64_t total = 0;

    for (int64_t i = word; i < word + n && i < w->count; i++)
        total += w->lengths[i];
    return total;
}

static void mask_words(const struct masked_config *c, struct bert_sample *s, int64_t target,
                       struct words *w, struct mt19937 *rng)
{
    double rounded = nearbyint((double)s->count * c->mask.probability);
    double most = fmin(c->mask.probability * (double)target, fmax(1, rounded));
    int64_t masked = 0;

    mt19937_shuffle_u32(rng, w->order, w->count);
    for (int64_t i = 0; i < w->count && (double)masked < most; i++) {
        uint32_t word = w->order[i];
        const int32_t *places = w->places + w->begins[word];
        int n = draw_ngram(rng), taken = 0;
        int64_t tokens;

        while (n > 0 && most < (double)(masked + ngram_tokens(w, word, n)))
            n--;
        tokens = ngram_tokens(w, word, n);
        for (int64_t j = 0; j < tokens; j++)
            taken |= s->labels[places[j]] != BATCH_IGNORE;
        for (int64_t j = 0; j < tokens && !taken; j++)
            mask_token(c, s, places[j], rng);
        masked += taken ? 0 : tokens;
    }
}

int bert_make(const struct masked_config *config, uint32_t seed, int64_t number,
              const int32_t *text, const int64_t *ends, int64_t count, int64_t target,
              struct bert_sample *sample, struct error *err)
{
    struct mt19937 rng;
    struct words words = {0};

    sample->is_random = 0;
    mt19937_seed(&rng, (uint32_t)((uint64_t)seed + (uint64_t)number));
    put_pair(config, text, ends, count, target, &rng, sample);
    for (int64_t i = 0; i < sample->count; i++) {
        if (sample->tokens[i] < 0 || sample->tokens[i] >= config->mask.vocabulary)
            return error_set_code(err, ERROR_USAGE,
                                  "token %" PRId32 " is outside the vocabulary of %" PRId64
                                  "; the data was made with another tokenizer: tokenize it "
                                  "again, or use that tokenizer",
                                  sample->tokens[i], config->mask.vocabulary);
        sample->labels[i] = BATCH_IGNORE;
    }
    words.places = xcalloc(4 * (size_t)sample->count, sizeof(*words.places));
    words.begins = words.places + sample->count;
    words.lengths = words.begins + sample->count;
    words.order = (uint32_t *)(words.lengths + sample->count);
    find_words(config, sample, &words);
    mask_words(config, sample, target, &words, &rng);
    free(words.places);
    return 0;
}

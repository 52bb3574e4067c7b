/* SPDX-License-Identifier: Apache-2.0 */
#include "masked_tokens.h"
#include "mt19937.h"
#include "pcg64.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

struct masking {
    struct mask_config config;
    double *cumulated; /* by id: the share of replacements up to and with it */
};

/* A generator of either kind. */
struct draws {
    int modern;
    struct mt19937 old;
    struct pcg64 new;
};

static double draw(struct draws *draws)
{
    return draws->modern ? pcg64_double(&draws->new) : mt19937_double(&draws->old);
}

/* --- Set-up ---------------------------------------------------------------------------------- */

static int check_config(const struct mask_config *c, struct error *err)
{
    if (c->vocabulary < 1 || c->mask < 0 || c->mask >= c->vocabulary)
        return error_set_code(err, ERROR_USAGE,
                              "the mask token %" PRId32 " is not in the vocabulary of %" PRId64
                              " tokens; give the id of the mask token with --mask-id",
                              c->mask, c->vocabulary);
    if (!(c->probability > 0 && c->probability < 1))
        return error_set_code(
            err, ERROR_USAGE,
            "a masking probability of %g is not between 0 and 1; correct --mask-prob",
            c->probability);
    if (!(c->leave_unmasked >= 0 && c->random_token >= 0 &&
          c->leave_unmasked + c->random_token <= 1))
        return error_set_code(
            err, ERROR_USAGE,
            "the probabilities of unmasked tokens (%g) and random tokens (%g) must not be "
            "negative, nor exceed 1 together; correct --leave-unmasked-prob and "
            "--random-token-prob",
            c->leave_unmasked, c->random_token);
    return 0;
}

/* numpy.cumsum of the normalized weights, divided by its last entry: numpy.random.choice. */
static void cumulate(const struct mask_config *c, double *cumulated)
{
    double total = 0, sum = 0;

    for (int64_t id = 0; id < c->vocabulary; id++) {
        cumulated[id] = id < c->first_random ? 0 : c->counts ? c->counts[id] : 1;
        total += cumulated[id];
    }
    for (int64_t id = 0; id < c->vocabulary; id++)
        cumulated[id] = sum += cumulated[id] / total;
    for (int64_t id = 0; id < c->vocabulary; id++)
        cumulated[id] /= sum;
}

struct masking *masking_create(const struct mask_config *config, struct error *err)
{
    struct masking *masking;

    if (check_config(config, err) < 0)
        return NULL;
    masking = xcalloc(1, sizeof(*masking));
    masking->cumulated = xcalloc((size_t)config->vocabulary, sizeof(double));
    masking->config = *config;
    cumulate(config, masking->cumulated);
    masking->config.counts = NULL;
    return masking;
}

void masking_destroy(struct masking *masking)
{
    if (!masking)
        return;
    free(masking->cumulated);
    free(masking);
}

/* --- Seeds ----------------------------------------------------------------------------------- */

/* hash() of an int64 in Python: modulo 2^61 - 1 with its sign, and -2 instead of -1. */
static uint64_t hash_int(int64_t value)
{
    const int64_t modulus = (INT64_C(1) << 61) - 1;
    int64_t hash = value % modulus;

    return (uint64_t)(hash == -1 ? -2 : hash);
}

uint32_t masking_seed(int64_t seed, int64_t epoch, int64_t index)
{
    const uint64_t p1 = 11400714785074694791u, p2 = 14029467366897019727u,
                   p5 = 2870177450012600261u;
    const int64_t values[] = {seed, epoch, index};
    uint64_t hash = p5;
    double rest;

    for (int i = 0; i < 3; i++) {
        hash += hash_int(values[i]) * p2;
        hash = hash << 31 | hash >> 33;
        hash *= p1;
    }
    hash += 3 ^ p5 ^ 3527539u;
    if (hash == UINT64_MAX)
        hash = 1546275796;
    /* A float, as in Python: the hash is rounded to 53 bits first. */
    rest = fmod((double)(int64_t)hash, 1e6);
    return (uint32_t)(rest < 0 ? rest + 1e6 : rest);
}

static void start_draws(struct draws *draws, enum mask_rule rule, uint32_t seed)
{
    draws->modern = rule == MASK_FAIRSEQ_MAIN;
    if (draws->modern)
        pcg64_seed(&draws->new, seed);
    else
        mt19937_seed(&draws->old, seed);
}

/* --- Which words ----------------------------------------------------------------------------- */

/* State of one sample. A word is a token, or with 'begins' all tokens up to the next beginning. */
enum fate { FATE_NONE, FATE_MASK, FATE_KEEP, FATE_RANDOM };

struct sample {
    const struct masking *masking;
    struct draws draws;
    int64_t words;
    unsigned char *fate; /* by word */
    uint32_t *order;     /* scratch, by word */
};

/* RandomState.choice(words, count, replace=False) */
static void choose_old(struct sample *s, int64_t count)
{
    for (int64_t i = 0; i < s->words; i++)
        s->order[i] = (uint32_t)i;
    mt19937_shuffle_u32(&s->draws.old, s->order, s->words);
    for (int64_t i = 0; i < count; i++)
        s->fate[s->order[i]] = FATE_MASK;
}

/* Generator.choice(words, count, replace=False): Floyd's algorithm, then a shuffle whose result
 * does not matter here but whose draws do. Large populations are shuffled from the end instead. */
static void choose_new(struct sample *s, int64_t count)
{
    if (s->words > 10000 && count > s->words / 50) {
        for (int64_t i = 0; i < s->words; i++)
            s->order[i] = (uint32_t)i;
        /* numpy swaps until one element remains if all are wanted */
        for (int64_t i = s->words - 1; i >= (s->words - count > 1 ? s->words - count : 1); i--) {
            uint32_t j = pcg64_interval(&s->draws.new, (uint32_t)i), kept = s->order[j];

            s->order[j] = s->order[i];
            s->order[i] = kept;
        }
        for (int64_t i = s->words - count; i < s->words; i++)
            s->fate[s->order[i]] = FATE_MASK;
        return;
    }
    for (int64_t j = s->words - count; j < s->words; j++) {
        uint32_t value = pcg64_interval(&s->draws.new, (uint32_t)j);

        s->fate[s->fate[value] == FATE_MASK ? (uint32_t)j : value] = FATE_MASK;
    }
    for (int64_t i = count - 1; i >= 1; i--)
        pcg64_interval(&s->draws.new, (uint32_t)i);
}

static void decide_fairseq(struct sample *s)
{
    const struct mask_config *c = &s->masking->config;
    double other = c->random_token + c->leave_unmasked;
    int64_t count = (int64_t)(c->probability * (double)s->words + draw(&s->draws));

    if (s->draws.modern)
        choose_new(s, count);
    else
        choose_old(s, count);
    if (other <= 0)
        return;
    for (int64_t i = 0; i < s->words; i++)
        if (draw(&s->draws) < other && s->fate[i] == FATE_MASK)
            s->fate[i] = c->random_token > 0 ? FATE_RANDOM : FATE_KEEP;
    if (c->random_token <= 0 || c->leave_unmasked <= 0)
        return;
    for (int64_t i = 0; i < s->words; i++)
        if (draw(&s->draws) < c->leave_unmasked / other && s->fate[i] == FATE_RANDOM)
            s->fate[i] = FATE_KEEP;
}

/* --- One sample ------------------------------------------------------------------------------ */

/* cumulated.searchsorted(random(), side="right") */
static int32_t draw_token(struct sample *s)
{
    const double *cumulated = s->masking->cumulated;
    double value = draw(&s->draws);
    int64_t low = 0, high = s->masking->config.vocabulary;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (cumulated[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return (int32_t)(low < s->masking->config.vocabulary ? low : low - 1);
}

static int check_tokens(const struct mask_config *c, const int32_t *tokens, int64_t count,
                        struct error *err)
{
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= c->vocabulary)
            return error_set_code(err, ERROR_USAGE,
                                  "token %" PRId32 " is outside the vocabulary of %" PRId64
                                  "; the data was made with another dict.txt or tokenizer: "
                                  "tokenize it again, or use the tokenizer that made it",
                                  tokens[i], c->vocabulary);
        if (tokens[i] == c->mask)
            return error_set(err,
                             "the data contains the mask token %" PRId32
                             "; it was made with another dict.txt or tokenizer: tokenize it again, "
                             "or use the tokenizer that made it",
                             tokens[i]);
    }
    return 0;
}

static int starts_word(const struct mask_config *c, const int32_t *tokens, int64_t i)
{
    return i == 0 || !c->begins || c->begins[tokens[i]];
}

/* Carry out what was decided, in the order of the tokens. */
static int64_t carry_out(struct sample *s, int32_t *tokens, int64_t count, int32_t *labels)
{
    const struct mask_config *c = &s->masking->config;
    int64_t word = -1, predicted = 0;

    for (int64_t i = 0; i < count; i++) {
        int32_t token = tokens[i];

        word += starts_word(c, tokens, i);
        s->order[i] = (uint32_t)word;
        labels[i] = s->fate[word] == FATE_NONE ? BATCH_IGNORE : token;
        predicted += labels[i] != BATCH_IGNORE;
    }
    for (int64_t i = 0; i < count; i++) {
        enum fate fate = s->fate[s->order[i]];

        if (fate == FATE_MASK)
            tokens[i] = c->mask;
        else if (fate == FATE_RANDOM)
            tokens[i] = draw_token(s);
    }
    return predicted;
}

int64_t masking_apply(const struct masking *masking, uint32_t seed, int32_t *tokens, int64_t count,
                      int32_t *labels, struct error *err)
{
    const struct mask_config *c = &masking->config;
    struct sample s = {.masking = masking};
    int64_t predicted;

    if (check_tokens(c, tokens, count, err) < 0)
        return -1;
    if (count == 0)
        return 0;
    if (c->rule == MASK_COLLATOR)
        return collator_apply(c, seed, tokens, count, labels);
    s.fate = xcalloc((size_t)count, 1);
    s.order = xcalloc((size_t)count, sizeof(*s.order));
    for (int64_t i = 0; i < count; i++)
        s.words += starts_word(c, tokens, i);
    start_draws(&s.draws, c->rule, seed);
    decide_fairseq(&s);
    predicted = carry_out(&s, tokens, count, labels);
    free(s.fate);
    free(s.order);
    return predicted;
}

int64_t masking_count(const struct masking *masking, uint32_t seed, int64_t count)
{
    const struct mask_config *c = &masking->config;
    struct draws draws;

    if (c->begins || c->rule == MASK_COLLATOR)
        return -1;
    if (count == 0)
        return 0;
    start_draws(&draws, c->rule, seed);
    return (int64_t)(c->probability * (double)count + draw(&draws));
}

int64_t masking_limit(const struct mask_config *config, int64_t count)
{
    /* Words and single draws are of any length and number; fairseq's tokens are counted. */
    if (config->begins || config->rule == MASK_COLLATOR)
        return count;
    return (int64_t)ceil(config->probability * (double)count);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "blend.h"
#include "lib/parse.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/core/xmalloc.h"

static int is_number_part(char c)
{
    return c == '.' || (c >= '0' && c <= '9');
}

static int wrong_split(const char *text, const char *why, struct error *err)
{
    return error_set(err, "data split %s: %s; change --split", text, why);
}

int split_parse(const char *text, struct split_range ranges[SPLITS], struct error *err)
{
    double values[SPLITS] = {0}, before = 0;
    size_t count = 0;
    const char *at = text;

    while (*at) {
        char number[64];
        size_t size = 0;

        if (!is_number_part(*at)) {
            if (*at == '-')
                return wrong_split(text, "its numbers must not be negative", err);
            if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '%')
                return wrong_split(text, "give up to three numbers, such as 949,50,1", err);
            at++;
            continue;
        }
        while (is_number_part(at[size]))
            size++;
        if (count == SPLITS)
            return wrong_split(
                text,
                "it has more than three numbers (the shares of training, validation and test)",
                err);
        if (size >= sizeof(number))
            return wrong_split(text, "one of its numbers has more than 63 digits", err);
        memcpy(number, at, size);
        number[size] = '\0';
        if (parse_double("data split", number, &values[count++], err) < 0)
            return error_append(err, "; change --split");
        at += size;
    }
    if (!(blend_sum(values, SPLITS) > 0))
        return wrong_split(text, "all its numbers are 0; give shares such as 949,50,1", err);
    blend_normalise(values, SPLITS);
    for (size_t i = 0; i < SPLITS; i++) {
        ranges[i].begin = before;
        ranges[i].end = before = before + values[i];
        ranges[i].present = ranges[i].end > ranges[i].begin;
    }
    return 0;
}

void split_bounds(const struct split_range *range, int64_t sequences, int64_t *first,
                  int64_t *count)
{
    int64_t begin = (int64_t)rint(range->begin * (double)sequences);
    int64_t end = (int64_t)rint(range->end * (double)sequences);

    if (end > sequences)
        end = sequences;
    *first = begin;
    *count = end > begin ? end - begin : 0;
}

double blend_sum(const double *values, size_t count)
{
    double lanes[8], sum = 0;
    size_t half, i;

    if (count < 8) {
        for (i = 0; i < count; i++)
            sum += values[i];
        return sum;
    }
    if (count > 128) {
        half = count / 2;
        half -= half % 8;
        return blend_sum(values, half) + blend_sum(values + half, count - half);
    }
    memcpy(lanes, values, sizeof(lanes));
    for (i = 8; i + 8 <= count; i += 8)
        for (size_t j = 0; j < 8; j++)
            lanes[j] += values[i + j];
    sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; i < count; i++)
        sum += values[i];
    return sum;
}

void blend_normalise(double *weights, size_t count)
{
    double sum = blend_sum(weights, count);

    for (size_t i = 0; i < count; i++)
        weights[i] /= sum;
}

static int is_weight(const char *word, double *value)
{
    struct error ignored;

    return parse_double("weight", word, value, &ignored) == 0;
}

static int is_corpus(const char *word)
{
    char path[4096];

    return snprintf(path, sizeof(path), "%s.idx", word) < (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

static int take_weights(const char *const *words, struct blend *blend, struct error *err)
{
    for (size_t i = 0; i < blend->count; i++) {
        if (!is_weight(words[2 * i], &blend->weights[i]))
            return error_set(err,
                             "\"%s\" is not a weight; give either a weight before each prefix or "
                             "prefixes alone",
                             words[2 * i]);
        if (!(blend->weights[i] > 0))
            return error_set(err, "the weight %s of %s must be above 0; drop the prefix",
                             words[2 * i], words[2 * i + 1]);
        blend->prefixes[i] = words[2 * i + 1];
    }
    return 0;
}

int blend_parse(const char *const *words, size_t count, struct blend *blend, struct error *err)
{
    size_t weights = 0;
    double ignored;

    memset(blend, 0, sizeof(*blend));
    for (size_t i = 0; i < count && count % 2 == 0; i += 2)
        weights += is_weight(words[i], &ignored) != 0;
    for (size_t i = 0; i < count && weights == 0; i++)
        if (is_weight(words[i], &ignored) && !is_corpus(words[i]))
            return error_set_code(err, ERROR_USAGE,
                                  "\"%s\" is a weight without a prefix, or a prefix that does not "
                                  "exist; give WEIGHT PREFIX WEIGHT PREFIX ... or prefixes alone "
                                  "(there are %zu words)",
                                  words[i], count);
    blend->count = weights > 0 ? count / 2 : count;
    if (blend->count == 0 || blend->count > INT16_MAX - 1)
        return error_set(err, "the data has %zu prefixes; give 1 to %d", blend->count,
                         INT16_MAX - 1);
    blend->prefixes = xcalloc(blend->count, sizeof(*blend->prefixes));
    if (weights > 0) {
        blend->weights = xcalloc(blend->count, sizeof(*blend->weights));
        return take_weights(words, blend, err);
    }
    for (size_t i = 0; i < count; i++)
        blend->prefixes[i] = words[i];
    return 0;
}

void blend_clear(struct blend *blend)
{
    free(blend->prefixes);
    free(blend->weights);
    memset(blend, 0, sizeof(*blend));
}

int64_t blend_target(int64_t samples, double weight)
{
    return (int64_t)ceil((double)samples * weight);
}

int64_t blend_with_surplus(int64_t samples, double weight)
{
    return (int64_t)ceil((double)blend_target(samples, weight) * (1 + 0.005));
}

struct greedy {
    double *taken; /* samples taken from each corpus, far below 2^53; INFINITY: exhausted */
    int16_t *corpus;
    int64_t *sample;
};

static void greedy_clear(struct greedy *g)
{
    free(g->taken);
    free(g->corpus);
    free(g->sample);
}

static struct greedy greedy_new(size_t count)
{
    return (struct greedy){.taken = xcalloc(count, sizeof(double)),
                           .corpus = xmalloc(BLEND_PIECE * sizeof(int16_t)),
                           .sample = xmalloc(BLEND_PIECE * sizeof(int64_t))};
}

/* The corpus furthest below its share at sample 'k'; the first one if several are equal. */
static size_t greedy_choose(const struct greedy *g, const double *weights, size_t count, int64_t k)
{
    double share = k > 1 ? (double)k : 1, most = weights[0] * share - g->taken[0];
    size_t chosen = 0;

    for (size_t i = 1; i < count; i++) {
        double behind = weights[i] * share - g->taken[i];

        if (behind > most) {
            most = behind;
            chosen = i;
        }
    }
    return chosen;
}

/* 'sizes': how many samples each corpus has; NULL: no limit. */
static int order(const double *weights, const int64_t *sizes, size_t count, int64_t samples,
                 int64_t *taken, blend_sink *sink, void *arg, struct error *err)
{
    struct greedy g = greedy_new(count);
    int result = 0;

    memset(taken, 0, count * sizeof(*taken));
    for (int64_t first = 0; first < samples && result == 0; first += BLEND_PIECE) {
        int64_t piece = samples - first < BLEND_PIECE ? samples - first : BLEND_PIECE;

        for (int64_t i = 0; i < piece; i++) {
            size_t corpus = greedy_choose(&g, weights, count, first + i);

            g.corpus[i] = (int16_t)corpus;
            g.sample[i] = taken[corpus]++;
            /* An exhausted corpus is no longer considered. */
            g.taken[corpus] =
                sizes && taken[corpus] == sizes[corpus] ? INFINITY : (double)taken[corpus];
        }
        result = sink(arg, first, piece, g.corpus, g.sample, err);
    }
    greedy_clear(&g);
    return result;
}

int blend_order(const double *weights, size_t count, int64_t samples, int64_t *taken,
                blend_sink *sink, void *arg, struct error *err)
{
    return order(weights, NULL, count, samples, taken, sink, arg, err);
}

int blend_order_exhaustive(const int64_t *sizes, size_t count, blend_sink *sink, void *arg,
                           struct error *err)
{
    double *weights = xcalloc(count, sizeof(*weights));
    int64_t *taken = xcalloc(count, sizeof(*taken)), total = 0;
    int result;

    for (size_t i = 0; i < count; i++)
        total += sizes[i];
    for (size_t i = 0; i < count; i++)
        weights[i] = (double)sizes[i] / (double)total;
    result = order(weights, sizes, count, total, taken, sink, arg, err);
    free(weights);
    free(taken);
    return result;
}

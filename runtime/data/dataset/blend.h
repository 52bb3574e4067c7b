/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting corpora into training, validation and test data, and blending them: Megatron-core's
 * arithmetic, bit for bit, because rounding decides which sample comes next. */
#ifndef MEGATRON_BLEND_H
#define MEGATRON_BLEND_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

enum { SPLITS = 3 };

/* The fraction of a corpus that a split gets, from 0 to 1. 'present' is 0 if it is empty. */
struct split_range {
    double begin, end;
    int present;
};

/* Parse a --split value such as "949,50,1" into the ranges of training, validation and test data.
 */
int split_parse(const char *text, struct split_range ranges[SPLITS], struct error *err);

/* The sequences [first, first + count) of 'sequences' that are in 'range', rounding half to even.
 */
void split_bounds(const struct split_range *range, int64_t sequences, int64_t *first,
                  int64_t *count);

/* numpy.sum of a double array: pairwise, in numpy's order. */
double blend_sum(const double *values, size_t count);

/* Divide 'weights' by their sum. */
void blend_normalise(double *weights, size_t count);

/* The data to train on, as users write it: PREFIX..., or WEIGHT PREFIX WEIGHT PREFIX... */
struct blend {
    const char **prefixes; /* the words themselves, not copied */
    double *weights;       /* NULL if none were given */
    size_t count;
};

/* Parse these words. Returns 0 or -1; call blend_clear in both cases. */
int blend_parse(const char *const *words, size_t count, struct blend *blend, struct error *err);
void blend_clear(struct blend *blend);

/* The number of samples that a corpus of normalized 'weight' contributes to a blend of 'samples',
 * and the number to build for it. */
int64_t blend_target(int64_t samples, double weight);
int64_t blend_with_surplus(int64_t samples, double weight);

/* Receives the blended order in runs of up to BLEND_PIECE samples: 'corpus' is the corpus of each,
 * 'sample' its number there. Returns 0, or -1 to stop. */
enum { BLEND_PIECE = 65536 };
typedef int blend_sink(void *arg, int64_t first, int64_t count, const int16_t *corpus,
                       const int64_t *sample, struct error *err);

/* The order of 'samples' samples of 'count' corpora (at most 32766) with normalized 'weights': the
 * next one is taken from the corpus for which w * max(k, 1) - taken is largest, or the first such
 * corpus. The product is rounded before the subtraction, as in Megatron's x86-64 build; its aarch64
 * build fuses the two and orders some blends differently. 'taken' receives the number of samples
 * per corpus. */
int blend_order(const double *weights, size_t count, int64_t samples, int64_t *taken,
                blend_sink *sink, void *arg, struct error *err);

/* The order that takes exactly sizes[i] samples from corpus i, in proportion. */
int blend_order_exhaustive(const int64_t *sizes, size_t count, blend_sink *sink, void *arg,
                           struct error *err);

#endif

/* How corpora are divided into training, validation and test data and mixed: the arithmetic of
 * Megatron-core, to the last bit, because rounding decides which sample comes next. */
#ifndef MEGATRON_BLEND_H
#define MEGATRON_BLEND_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

enum { SPLITS = 3 };

/* The part of a corpus that a split takes, from 0 to 1. 'present' is 0 where it is empty. */
struct split_range {
    double begin, end;
    int present;
};

/* Read a --split text such as "949,50,1" into the ranges of training, validation and test data. */
int split_parse(const char *text, struct split_range ranges[SPLITS], struct error *err);

/* The sequences [first, first + count) of 'sequences' that lie in 'range', rounded half to even. */
void split_bounds(const struct split_range *range, int64_t sequences, int64_t *first,
                  int64_t *count);

/* numpy.sum of a double array: pairwise, in numpy's order. */
double blend_sum(const double *values, size_t count);

/* Divide 'weights' by their sum. */
void blend_normalise(double *weights, size_t count);

/* The words of --data-path: PREFIX..., or WEIGHT PREFIX WEIGHT PREFIX... */
struct blend {
    const char **prefixes; /* the words themselves, not copied */
    double *weights;       /* NULL where none were given */
    size_t count;
};

/* 'what' is the option's name for the error. Returns 0 or -1; blend_clear in both cases. */
int blend_parse(const char *what, const char *const *words, size_t count, struct blend *blend,
                struct error *err);
void blend_clear(struct blend *blend);

/* Samples to take of a part with normalised 'weight' of a blend of 'samples', and to build of it.
 */
int64_t blend_target(int64_t samples, double weight);
int64_t blend_with_surplus(int64_t samples, double weight);

/* Takes the blended order in pieces of up to BLEND_PIECE samples: 'corpus' is the part each comes
 * from, 'sample' its number there. Returns 0, or -1 to stop. */
enum { BLEND_PIECE = 65536 };
typedef int blend_sink(void *arg, int64_t first, int64_t count, const int16_t *corpus,
                       const int64_t *sample, struct error *err);

/* The order of 'samples' samples of 'count' corpora (at most 32766) with normalised 'weights': each
 * is taken where w * max(k, 1) - taken is largest, the first of equals. The product is rounded
 * before the difference, as Megatron's x86-64 build does it; its aarch64 build fuses the two and
 * orders some blends differently. 'taken' receives the samples per corpus. */
int blend_order(const double *weights, size_t count, int64_t samples, int64_t *taken,
                blend_sink *sink, void *arg, struct error *err);

/* The order that takes exactly sizes[i] samples of corpus i, in proportion. */
int blend_order_exhaustive(const int64_t *sizes, size_t count, blend_sink *sink, void *arg,
                           struct error *err);

#endif

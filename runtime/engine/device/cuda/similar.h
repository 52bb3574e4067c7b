/* SPDX-License-Identifier: Apache-2.0 */
/* The installed tuning results of shapes that are similar to a new one: what was the fastest for
 * them is probably the fastest for it, too, and the rest need not be timed. Results in the cache
 * are not used: they may come from a shortlist themselves. */
#ifndef MEGATRON_SIMILAR_H
#define MEGATRON_SIMILAR_H

#include <stdint.h>

/* Sizes are similar if their ratios are, added up, at most this many powers of two. */
#define SIMILAR_OCTAVES 4

/* The most similar results, in order of their distance. */
enum { SIMILAR_MOST = 24 };
struct similar {
    const char *values[SIMILAR_MOST]; /* belong to the caller */
    double octaves[SIMILAR_MOST];     /* the distances */
    int count;
};

/* Add the result 'value' of a shape with the positive sizes 'others' if that is similar to 'sizes'
 * and among the most similar ones; of equal ones the first. */
void similar_add(struct similar *similar, const int64_t sizes[3], const int64_t others[3],
                 const char *value);

#endif

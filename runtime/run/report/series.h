/* SPDX-License-Identifier: Apache-2.0 */
/* Curves for charts: values of a run's steps, thinned out so that no extreme is lost. */
#ifndef MEGATRON_SERIES_H
#define MEGATRON_SERIES_H

#include "run.h"

enum { MOST_POINTS = 2000, MOST_LOST_POINTS = 400 };

enum look { LOOK_RAW, LOOK_SMOOTH, LOOK_LOST, LOOK_DOTS, LOOK_RANGE };

struct point {
    double step, value, elapsed;
    size_t attempt; /* lost steps of different attempts are not connected */
};

struct series {
    enum look look;
    size_t run; /* index, which chooses the color */
    const char *label;
    struct point *points;
    size_t count;
};

/* A value of a step, NAN if it has none: 'compute' gives it or, if that is NULL, the float member
 * at 'offset' is it. */
struct quantity {
    size_t offset;
    double (*compute)(const struct run *run, const struct step *step);
};

/* Each makes a series of at most 'most' points. The caller clears it. */
void series_raw(struct series *series, const struct run *run, const struct quantity *quantity,
                bool lost, size_t most);
void series_smooth(struct series *series, const struct run *run, const struct quantity *quantity,
                   size_t most);
void series_clear(struct series *series);

/* Keep at most 'most' of 'count' points, in place: the lowest and the highest of every stretch of
 * equal length. Returns how many are left. */
size_t series_thin(struct point *points, size_t count, size_t most);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include "base/core/xmalloc.h"

#include <math.h>
#include <stdlib.h>

size_t series_thin(struct point *points, size_t count, size_t most)
{
    size_t stretches = most / 2, kept = 0;

    if (count <= most || stretches == 0)
        return count;
    for (size_t i = 0; i < stretches; i++) {
        size_t from = i * count / stretches, to = (i + 1) * count / stretches;
        size_t low = from, high = from;
        struct point first, second;

        for (size_t k = from + 1; k < to; k++) {
            if (points[k].value < points[low].value)
                low = k;
            if (points[k].value > points[high].value)
                high = k;
        }
        first = points[low < high ? low : high];
        second = points[low < high ? high : low];
        points[kept++] = first;
        if (low != high)
            points[kept++] = second;
    }
    return kept;
}

static size_t count_lines(const struct run *run)
{
    size_t count = 0;

    for (size_t i = 0; i < run->count; i++)
        count += run->attempts[i]->steps.count;
    return count;
}

static double value_of(const struct quantity *q, const struct run *run, const struct step *step)
{
    return q->compute ? q->compute(run, step)
                      : (double)*(const float *)(const void *)((const char *)step + q->offset);
}

static void collect(struct series *series, const struct run *run, const struct quantity *quantity,
                    bool lost)
{
    series->count = 0;
    series->points = xcalloc(count_lines(run), sizeof(*series->points));
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->steps.count; k++) {
            const struct step *s = &run->attempts[i]->steps.items[k];
            double y = s->lost == lost ? value_of(quantity, run, s) : NAN;

            if (isfinite(y))
                series->points[series->count++] =
                    (struct point){(double)s->iteration, y, s->elapsed, i};
        }
}

/* Give back what thinning has freed. */
static void shrink(struct series *series)
{
    series->points = xrealloc(series->points, series->count, sizeof(*series->points));
}

void series_raw(struct series *series, const struct run *run, const struct quantity *quantity,
                bool lost, size_t most)
{
    collect(series, run, quantity, lost);
    series->count = series_thin(series->points, series->count, most);
    series->look = lost ? LOOK_LOST : LOOK_RAW;
    series->label = lost ? "lost" : "value";
    shrink(series);
}

/* Exponential moving average over a hundredth of the run, without a bias towards the first value.
 * A smooth curve needs no extremes: every n-th point is kept. */
void series_smooth(struct series *series, const struct run *run, const struct quantity *quantity,
                   size_t most)
{
    double window, keep, mean = 0, weight = 0;
    size_t every, kept = 0;

    collect(series, run, quantity, false);
    window = fmin(fmax((double)series->count / 100, 5), 5000);
    keep = 1 - 2 / (window + 1);
    every = series->count / most + 1;
    for (size_t i = 0; i < series->count; i++) {
        mean = keep * mean + (1 - keep) * series->points[i].value;
        weight = keep * weight + (1 - keep);
        series->points[i].value = mean / weight;
        if (i % every == 0 || i + 1 == series->count)
            series->points[kept++] = series->points[i];
    }
    series->count = kept;
    series->look = LOOK_SMOOTH;
    series->label = "smoothed";
    shrink(series);
}

void series_clear(struct series *series)
{
    free(series->points);
    *series = (struct series){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Thinning out curves: few points, and no extreme is lost. */
#include "run/report/chart.h"
#include "run/report/series.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

static void test_thin(size_t count, size_t most)
{
    struct point *points = malloc(count * sizeof(*points));
    size_t low = count / 3, high = count - 1, left, sorted = 1, found = 0;

    if (!points)
        return;
    for (size_t i = 0; i < count; i++)
        points[i] = (struct point){(double)i, sin((double)i), 0, 0};
    points[low].value = -100;
    points[high].value = 100;
    left = series_thin(points, count, most);
    for (size_t i = 0; i < left; i++) {
        found += points[i].value == -100 && points[i].step == (double)low;
        found += points[i].value == 100 && points[i].step == (double)high;
        sorted &= i == 0 || points[i].step > points[i - 1].step;
    }
    ok(left <= most || left == count, "%zu of %zu points are left", left, count);
    ok(left <= most, "  at most %zu", most);
    ok(found == 2, "  with the lowest and the highest");
    ok((int)sorted, "  in order");
    free(points);
}

static void test_ticks(void)
{
    static const struct {
        double low, high, step, first;
        int count;
    } rows[] = {
        {0, 10, 2, 0, 6},
        {1, 4000, 1000, 1, 4},
        {-0.9, 1, 0.5, -1, 4},
        {0.1, 0.2, 1, 1, 0},
        {0x1p54, 0x1p54 + 4, 1, 0x1p54, 5},
        {0, 1e300, 1, 0, 20},
        {-INFINITY, INFINITY, 1, 0, 20},
        {NAN, NAN, NAN, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double first;
        int count = chart_ticks(rows[i].low, rows[i].high, rows[i].step, &first);

        ok(count == rows[i].count && (!isfinite(rows[i].low) || fabs(first - rows[i].first) < 1),
           "%d ticks of [%g, %g]", count, rows[i].low, rows[i].high);
    }
}

int main(void)
{
    static const struct {
        double low, high, step;
        int wanted;
    } ticks[] = {{0, 10, 2, 5}, {0, 1, 0.2, 5}, {1, 4000, 1000, 6}, {0, 1e-6, 2e-7, 5}};

    test_thin(2000, 2000);
    test_thin(2001, 2000);
    test_thin(1000000, 2000);
    test_thin(999, 100);
    test_ticks();
    for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
        double step = chart_tick_step(ticks[i].low, ticks[i].high, ticks[i].wanted);

        ok(fabs(step / ticks[i].step - 1) < 1e-9, "ticks of [%g, %g] every %g", ticks[i].low,
           ticks[i].high, step);
    }
    return done_testing();
}

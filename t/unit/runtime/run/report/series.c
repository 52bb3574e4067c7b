/* SPDX-License-Identifier: Apache-2.0 */
/* Thinning out curves: few points, and no extreme is lost. */
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

int main(void)
{
    test_thin(2000, 2000);
    test_thin(2001, 2000);
    test_thin(1000000, 2000);
    test_thin(999, 100);
    return done_testing();
}

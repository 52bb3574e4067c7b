/* SPDX-License-Identifier: Apache-2.0 */
/* Compare what a kernel computed with what it should have. */
#ifndef COMPARISON_H
#define COMPARISON_H

#include <cmath>

#include "tap.h"

/* The largest difference and the largest value. */
struct comparison {
    double difference = 0, size = 0;

    /* NaN is the largest difference. */
    void add(double got, double expected)
    {
        if (!std::isnan(difference) && !(fabs(got - expected) <= difference))
            difference = fabs(got - expected);
        size = fmax(size, fabs(expected));
    }

    /* 'most': the difference that is allowed, relative to the largest value. */
    void report(const char *name, double most) const
    {
        ok(difference <= most * size, "  %s differs by %.1g of %.1g", name, difference, size);
    }
};

#endif

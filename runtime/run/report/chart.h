/* SPDX-License-Identifier: Apache-2.0 */
/* Line charts: a figure, and its numbers as JSON for the page's script, which draws them. */
#ifndef MEGATRON_CHART_H
#define MEGATRON_CHART_H

#include <stdio.h>

#include "base/core/json_write.h"
#include "series.h"
#include "page_parts.h"

/* Colors for runs; further runs start again. */
enum { COLORS = 8 };

struct chart {
    const char *id, *title, *unit;
    bool logarithmic; /* the vertical axis, if there are spikes */
    struct series series[64];
    size_t count;
};

/* Add the figure, empty. */
void chart_draw(const struct chart *chart, FILE *html);

/* Add the numbers as a JSON object. */
void chart_numbers(const struct chart *chart, struct json_writer *json);

void chart_clear(struct chart *chart);
bool chart_is_empty(const struct chart *chart);

/* A number for a table: 1.5M, 20k, 0.25, 3e-5. */
void chart_number(FILE *html, double value);

/* A duration: 35 ms, 12.3 s, 4 min, 2.5 h, 3.1 d. */
void chart_duration(FILE *html, double seconds);

#endif

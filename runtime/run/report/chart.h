/* SPDX-License-Identifier: Apache-2.0 */
/* Line charts as inline SVG, and their numbers as JSON for the page's script, which draws them
 * again with other axes. The sizes below are also those of the script. */
#ifndef MEGATRON_CHART_H
#define MEGATRON_CHART_H

#include <stdio.h>

#include "base/core/json_write.h"
#include "series.h"
#include "text.h"

enum {
    CHART_WIDTH = 720,
    CHART_HEIGHT = 260,
    CHART_LEFT = 76,
    CHART_RIGHT = 14,
    CHART_TOP = 10,
    CHART_BOTTOM = 36
};

/* Colors for runs; further runs start again. */
enum { COLORS = 8 };

struct chart {
    const char *id, *title, *unit;
    bool logarithmic;
    struct series series[64];
    size_t count;
};

/* Draw the figure. Nothing is drawn for a chart without points. */
void chart_draw(const struct chart *chart, FILE *html);

/* Add the numbers as a JSON object. */
void chart_numbers(const struct chart *chart, struct json_writer *json);

void chart_clear(struct chart *chart);
bool chart_is_empty(const struct chart *chart);

/* Ticks at round numbers of [low, high], about 'wanted' of them. Returns the step between them. */
double chart_tick_step(double low, double high, int wanted);

/* How many multiples of 'step' are in [low, high], but at most 20; they are *first * step,
 * (*first + 1) * step, ... A loop that adds the step may not end: above 2^53 the sum can be the
 * same number. */
int chart_ticks(double low, double high, double step, double *first);

/* A number for a tick or a table: 1.5M, 20k, 0.25, 3e-5. */
void chart_number(FILE *html, double value);

/* A duration: 35 ms, 12.3 s, 4 min, 2.5 h, 3.1 d. */
void chart_duration(FILE *html, double seconds);

#endif

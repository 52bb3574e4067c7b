/* SPDX-License-Identifier: Apache-2.0 */
#include "chart.h"

#include <math.h>
#include <stdio.h>

enum { MOST_TICKS = 20 };

struct scale {
    double low, high;
    int logarithmic;
};

double chart_tick_step(double low, double high, int wanted)
{
    double raw = (high - low) / wanted, power = pow(10, floor(log10(raw))), m = raw / power;

    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

int chart_ticks(double low, double high, double step, double *first)
{
    double count;

    *first = ceil(low / step);
    count = floor(high / step) - *first + 1;
    return count >= 1 ? (int)fmin(count, MOST_TICKS) : 0;
}

void chart_number(FILE *html, double value)
{
    static const struct {
        double unit;
        const char *suffix;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
    double size = fabs(value);

    if (!isfinite(value)) {
        fputs("\xe2\x80\x93", html);
        return;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (size >= units[i].unit) {
            double unit = units[i].unit == 1e4 ? 1e3 : units[i].unit;

            fprintf(html, "%.4g%s", value / unit, units[i].suffix);
            return;
        }
    fprintf(html, size != 0 && size < 1e-3 ? "%.3g" : "%.4g", size < 1e-12 ? 0.0 : value);
}

void chart_duration(FILE *html, double seconds)
{
    if (!isfinite(seconds))
        fputs("\xe2\x80\x93", html);
    else if (seconds < 1)
        fprintf(html, "%.3g ms", 1000 * seconds);
    else if (seconds < 120)
        fprintf(html, "%.3g s", seconds);
    else if (seconds < 7200)
        fprintf(html, "%.3g min", seconds / 60);
    else if (seconds < 172800)
        fprintf(html, "%.3g h", seconds / 3600);
    else
        fprintf(html, "%.3g d", seconds / 86400);
}

bool chart_is_empty(const struct chart *chart)
{
    for (size_t i = 0; i < chart->count; i++)
        if (chart->series[i].count > 0)
            return false;
    return true;
}

void chart_clear(struct chart *chart)
{
    for (size_t i = 0; i < chart->count; i++)
        series_clear(&chart->series[i]);
    chart->count = 0;
}

/* The ranges of all points; a range is never empty. */
static void measure(const struct chart *chart, struct scale *x, struct scale *y)
{
    *x = (struct scale){INFINITY, -INFINITY, 0};
    *y = (struct scale){INFINITY, -INFINITY, chart->logarithmic};
    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = 0; k < chart->series[i].count; k++) {
            const struct point *p = &chart->series[i].points[k];

            x->low = fmin(x->low, p->step);
            x->high = fmax(x->high, p->step);
            if (y->logarithmic && p->value <= 0)
                continue;
            y->low = fmin(y->low, p->value);
            y->high = fmax(y->high, p->value);
        }
    if (x->high <= x->low)
        x->high = x->low + fmax(1, fabs(x->low) * 1e-12);
    if (!(y->high >= y->low)) /* nothing is positive */
        *y = (struct scale){0, 1, 0};
    if (y->logarithmic) {
        y->low = log10(y->low);
        y->high = log10(y->high);
    }
    if (y->high <= y->low) {
        double around = y->logarithmic ? 0.5 : fmax(fabs(y->high) * 0.05, 1e-9);

        y->low -= around;
        y->high += around;
    } else {
        double margin = (y->high - y->low) * 0.04;

        y->low = !y->logarithmic && y->low >= 0 && y->low < margin ? y->low : y->low - margin;
        y->high += margin;
    }
}

static double at_x(const struct scale *x, double value)
{
    return CHART_LEFT +
           (value - x->low) / (x->high - x->low) * (CHART_WIDTH - CHART_LEFT - CHART_RIGHT);
}

static double at_y(const struct scale *y, double value)
{
    double height = y->logarithmic ? (value > 0 ? log10(value) : y->low) : value;

    return CHART_HEIGHT - CHART_BOTTOM -
           (height - y->low) / (y->high - y->low) * (CHART_HEIGHT - CHART_TOP - CHART_BOTTOM);
}

static void draw_x_ticks(const struct scale *x, FILE *html)
{
    double step = fmax(chart_tick_step(x->low, x->high, 6), 1), first;
    int count = chart_ticks(x->low, x->high, step, &first);

    for (int i = 0; i < count; i++) {
        fprintf(html, "<text x=\"%.1f\" y=\"%d\"%s>", at_x(x, (first + i) * step),
                CHART_HEIGHT - 12, i % 2 ? " class=\"odd\"" : "");
        chart_number(html, (first + i) * step);
        fputs("</text>", html);
    }
}

static void draw_y_tick(const struct scale *y, double value, double height, FILE *html)
{
    double top = CHART_HEIGHT - CHART_BOTTOM -
                 (height - y->low) / (y->high - y->low) * (CHART_HEIGHT - CHART_TOP - CHART_BOTTOM);

    fprintf(html, "<path d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\">", CHART_LEFT, top,
            CHART_WIDTH - CHART_RIGHT, CHART_LEFT - 8, top + 4);
    chart_number(html, value);
    fputs("</text>", html);
}

static void draw_y_ticks(const struct scale *y, FILE *html)
{
    double step = chart_tick_step(y->low, y->high, 5), first;
    int count;

    if (y->logarithmic && y->high - y->low >= 1)
        step = fmax(ceil((y->high - y->low) / 6), 1);
    count = chart_ticks(y->low, y->high, step, &first);
    for (int i = 0; i < count; i++) {
        double t = (first + i) * step;

        draw_y_tick(y, y->logarithmic ? pow(10, t) : t, t, html);
    }
}

static const char *const looks[] = {"raw", "smooth", "lost", "dots", "range"};

static void draw_series(const struct series *s, const struct scale *x, const struct scale *y,
                        FILE *html)
{
    fprintf(html, "<path class=\"%s c%zu\" d=\"", looks[s->look], s->run % COLORS);
    for (size_t i = 0; i < s->count; i++) {
        const struct point *p = &s->points[i];
        int move = i == 0 || (s->look == LOOK_LOST && p->attempt != s->points[i - 1].attempt);

        fprintf(html, "%s%.1f %.1f",
                move                     ? "M"
                : s->count > 1 && i == 1 ? "L"
                                         : " ",
                at_x(x, p->step), at_y(y, p->value));
        if (s->count == 1)
            fputs("h.1", html);
    }
    fputs("\"/>", html);
    if (s->look != LOOK_DOTS || s->count > 200)
        return;
    for (size_t i = 0; i < s->count; i++)
        fprintf(html, "<circle class=\"c%zu\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/>", s->run % COLORS,
                at_x(x, s->points[i].step), at_y(y, s->points[i].value));
}

static bool has_look(const struct chart *chart, enum look look)
{
    for (size_t i = 0; i < chart->count; i++)
        if (chart->series[i].look == look)
            return true;
    return false;
}

void chart_draw(const struct chart *chart, FILE *html)
{
    struct scale x, y;

    if (chart_is_empty(chart))
        return;
    measure(chart, &x, &y);
    fprintf(html,
            "<figure class=\"chart\" id=\"%s\"><figcaption><b>%s</b> <span class=\"unit\">%s"
            "</span><output></output></figcaption>\n"
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s by step\">",
            chart->id, chart->title, chart->unit, CHART_WIDTH, CHART_HEIGHT, chart->title);
    fputs("<g class=\"grid y\">", html);
    draw_y_ticks(&y, html);
    fputs("</g><g class=\"grid x\">", html);
    draw_x_ticks(&x, html);
    fprintf(html, "</g><g class=\"lines%s\">", has_look(chart, LOOK_SMOOTH) ? " has" : "");
    for (size_t i = 0; i < chart->count; i++)
        if (chart->series[i].count > 0)
            draw_series(&chart->series[i], &x, &y, html);
    fprintf(html, "</g><path class=\"cross\" d=\"\"/></svg></figure>\n");
}

static void add_numbers(struct json_writer *json, const char *name, const struct series *s,
                        size_t offset, int digits)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < s->count; i++)
        json_put_number(json, NULL, *(const double *)((const char *)&s->points[i] + offset),
                        digits);
    json_close(json);
}

void chart_numbers(const struct chart *chart, struct json_writer *json)
{
    json_open(json, NULL, '{');
    json_put_string(json, "id", chart->id);
    json_put_integer(json, "log", chart->logarithmic);
    json_open(json, "series", '[');
    for (size_t i = 0; i < chart->count; i++) {
        const struct series *s = &chart->series[i];

        if (s->count == 0)
            continue;
        json_open(json, NULL, '{');
        json_put_integer(json, "run", (int64_t)s->run);
        json_put_string(json, "look", looks[s->look]);
        json_put_string(json, "label", s->label);
        add_numbers(json, "x", s, offsetof(struct point, step), 15);
        add_numbers(json, "y", s, offsetof(struct point, value), 5);
        /* Lost steps happened at another time than those that replaced them. */
        if (s->look == LOOK_LOST) {
            add_numbers(json, "t", s, offsetof(struct point, elapsed), 8);
            json_open(json, "part", '[');
            for (size_t k = 0; k < s->count; k++)
                json_put_integer(json, NULL, (int64_t)s->points[k].attempt);
            json_close(json);
        }
        json_close(json);
    }
    json_close(json);
    json_close(json);
}

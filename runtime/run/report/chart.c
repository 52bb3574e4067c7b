/* SPDX-License-Identifier: Apache-2.0 */
#include "chart.h"

#include <math.h>
#include <stdio.h>

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

void chart_draw(const struct chart *chart, FILE *html)
{
    fprintf(html,
            "<figure class=\"chart\" id=\"%s\"><figcaption><b>%s</b> <span class=\"unit\">%s"
            "</span><output></output></figcaption>\n"
            "<svg viewBox=\"0 0 720 260\" role=\"img\" aria-label=\"%s by step\"></svg></figure>\n",
            chart->id, chart->title, chart->unit, chart->title);
}

static const char *const looks[] = {"raw", "smooth", "lost", "dots", "range"};

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
    json_put_bool(json, "log", chart->logarithmic);
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

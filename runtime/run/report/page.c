/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"
#include "base/core/xmalloc.h"
#include "chart.h"
#include "page_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Charts ---------------------------------------------------------------------------------- */

static double skipped_of(const struct run *run, const struct step *s)
{
    return run->skipped + run->nans > 0 ? (double)s->skipped + (double)s->nans : NAN;
}

/* Validation losses of later attempts replace those of earlier ones. */
static void add_validation(struct chart *chart, const struct run *run, size_t number)
{
    struct series *s = &chart->series[chart->count++];
    size_t room = 0;

    for (size_t i = 0; i < run->count; i++)
        room += run->attempts[i]->validations.count;
    *s = (struct series){.look = LOOK_DOTS,
                         .run = number,
                         .label = "validation",
                         .points = xcalloc(room, sizeof(*s->points))};
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->validations.count; k++) {
            const struct validation *v = &run->attempts[i]->validations.items[k];

            if (v->test || !isfinite(v->loss))
                continue;
            while (s->count > 0 && s->points[s->count - 1].step >= (double)v->iteration)
                s->count--;
            s->points[s->count++] = (struct point){(double)v->iteration, v->loss, NAN, 0};
        }
    s->count = series_thin(s->points, s->count, MOST_POINTS / 2);
}

#define MEMBER(name)                      \
    {                                     \
        offsetof(struct step, name), NULL \
    }

static const struct {
    const char *id, *title, *unit;
    struct quantity value;
    bool smooth, logarithmic;
} kinds[] = {
    {"loss", "Loss", "raw, smoothed and validation", MEMBER(loss), true, false},
    {"validation", "Validation loss", "", {0, NULL}, false, false},
    {"norm", "Gradient norm", "", MEMBER(norm), false, true},
    {"lr", "Learning rate", "", MEMBER(lr), false, false},
    {"time", "Step time", "ms", MEMBER(ms), false, true},
    {"speed", "Throughput", "tokens/s", {0, run_speed}, false, false},
    {"tflops", "Throughput per GPU", "TFLOP/s", MEMBER(tflops), false, false},
    {"scale", "Loss scale", "", MEMBER(scale), false, true},
    {"skipped", "Skipped and NaN steps", "per log line", {0, skipped_of}, false, false},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void add_run(struct chart *chart, size_t kind, const struct run *run, size_t number,
                    size_t most)
{
    const struct quantity *value = &kinds[kind].value;
    bool validation = strcmp(kinds[kind].id, "validation") == 0;

    for (int lost = 1; lost >= 0 && !validation; lost--) {
        struct series *s = &chart->series[chart->count++];

        series_raw(s, run, value, lost, lost ? most * MOST_LOST_POINTS / MOST_POINTS : most);
        s->run = number;
    }
    if (kinds[kind].smooth) {
        series_smooth(&chart->series[chart->count], run, value, most / 2);
        chart->series[chart->count++].run = number;
    }
    if (kinds[kind].smooth || validation)
        add_validation(chart, run, number);
}

static void make_chart(struct chart *chart, size_t kind, const struct runs *runs)
{
    size_t most = MOST_POINTS / (runs->count ? runs->count : 1);

    *chart = (struct chart){.id = kinds[kind].id,
                            .title = kinds[kind].title,
                            .unit = kinds[kind].unit,
                            .logarithmic = kinds[kind].logarithmic};
    for (size_t i = 0; i < runs->count; i++)
        add_run(chart, kind, &runs->items[i], i, most);
}

/* Power, clock or temperature of all GPUs: lowest, mean and highest. */
static void make_power_chart(struct chart *chart, const struct input *input, int which)
{
    static const char *const ids[] = {"power", "clock", "temperature"};
    static const char *const titles[] = {"Power per GPU", "SM clock", "Temperature"};
    static const char *const units[] = {"W; lowest, mean, highest", "MHz; lowest, mean, highest",
                                        "\u00b0C; lowest, mean, highest"};
    static const char *const labels[] = {"lowest", "mean", "highest"};

    *chart = (struct chart){.id = ids[which], .title = titles[which], .unit = units[which]};
    for (size_t g = 0; g < input->groups.count; g++)
        for (int level = 0; level < 3 && input->groups.items[g].count > 0 && chart->count < 48;
             level++) {
            const struct extras *e = &input->groups.items[g].extras;
            struct series *s = &chart->series[chart->count++];

            *s = (struct series){.look = level == 1 ? LOOK_SMOOTH : LOOK_RANGE,
                                 .run = input->groups.items[g].first,
                                 .label = labels[level]};
            s->points = xcalloc(e->power.count, sizeof(*s->points));
            for (size_t i = 0; i < e->power.count; i++) {
                const struct power *p = &e->power.items[i];
                const float *values = which == 0 ? p->watts : which == 1 ? p->mhz : p->celsius;

                if (isfinite(values[level]))
                    s->points[s->count++] =
                        (struct point){(double)p->iteration, (double)values[level], NAN, 0};
            }
            s->count = series_thin(s->points, s->count, MOST_LOST_POINTS);
        }
}

static void draw_charts(const struct input *input, FILE *html, struct json_writer *json)
{
    struct chart *chart = xmalloc(sizeof(*chart));

    json_open_lines(json, "charts", '[');
    for (size_t i = 0; i < KINDS + 3; i++) {
        if (i < KINDS)
            make_chart(chart, i, &input->runs);
        else
            make_power_chart(chart, input, (int)(i - KINDS));
        if (!chart_is_empty(chart)) {
            chart_draw(chart, html);
            chart_numbers(chart, json);
        }
        chart_clear(chart);
    }
    json_close(json);
    free(chart);
}

/* --- Numbers for the script ------------------------------------------------------------------ */

enum axis { AXIS_STEP, AXIS_TOKENS, AXIS_TIME };

static void add_axis(const struct run *run, const char *name, enum axis axis,
                     struct json_writer *json)
{
    size_t every = run->lines / 400 + 1, seen = 0;

    json_open(json, name, '[');
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->steps.count; k++) {
            const struct step *s = &run->attempts[i]->steps.items[k];
            double value = axis == AXIS_STEP ? (double)s->iteration
                           : axis == AXIS_TOKENS
                               ? s->samples * (double)llabs((long long)run->seq_length)
                               : s->elapsed;

            if (s->lost || (seen++ % every != 0 && s != run->last))
                continue;
            json_put_number(json, NULL, value, axis == AXIS_TIME ? 8 : 15);
        }
    json_close(json);
}

/* For each run, tokens and time at some steps, between which the script interpolates. */
static void add_axes(const struct runs *runs, struct json_writer *json)
{
    json_open(json, "runs", '[');
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->items[i];

        json_open(json, NULL, '{');
        json_put_bool(json, "samples", run->seq_length <= 0);
        add_axis(run, "step", AXIS_STEP, json);
        add_axis(run, "tokens", AXIS_TOKENS, json);
        add_axis(run, "time", AXIS_TIME, json);
        json_close(json);
    }
    json_close(json);
}

/* --- Page ------------------------------------------------------------------------------------ */

static void add_head(const struct input *input, FILE *html)
{
    fprintf(html, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" PAGE_SCRIPT_HASH
                  "'\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    for (size_t i = 0; i < input->runs.count; i++) {
        fputs(i > 0 ? ", " : "", html);
        text_escape(input->runs.items[i].name, html);
    }
    fprintf(html, " - megatron report</title>\n<style>%s</style></head>\n<body>\n", page_style);
}

static void add_notes(const struct notes *notes, FILE *html)
{
    if (notes->count == 0)
        return;
    fputs("<ul class=\"notes\">", html);
    for (size_t i = 0; i < notes->count; i++) {
        fputs("<li>", html);
        text_escape(notes->items[i], html);
        fputs("</li>", html);
    }
    fputs("</ul>\n", html);
}

static void add_times(const struct input *input, FILE *html)
{
    const struct runs *runs = &input->runs;

    fputs("<h2>Time</h2>\n<div class=\"grid2\">\n", html);
    figure_timeline(runs, html);
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->count > 1) {
            fputs("<h3 class=\"wide\">", html);
            text_escape(runs->items[i].name, html);
            fputs("</h3>\n", html);
        }
        figure_goodput(&runs->items[i], html);
    }
    section_percentiles(runs, html);
    for (size_t i = 0; i < input->groups.count; i++)
        figure_heat(&input->groups.items[i].extras, html);
    fputs("</div>\n", html);
}

static void add_details(const struct input *input, FILE *html)
{
    for (size_t g = 0; g < input->groups.count; g++)
        for (size_t i = 0; i < input->groups.items[g].count; i++) {
            const struct run *run = &input->runs.items[input->groups.items[g].first + i];

            fputs("<section><h2>Run ", html);
            text_escape(run->name, html);
            fputs("</h2>\n", html);
            if (i == 0)
                section_extras(&input->groups.items[g].extras, run, html);
            section_starts(run, html);
            section_setup(run, html);
            fputs("</section>\n", html);
        }
}

void page_write(const struct input *input, FILE *html)
{
    struct json_writer json = {0};

    add_head(input, html);
    fputs("<header><h1>Training report</h1></header>\n<main>\n", html);
    add_notes(&input->notes, html);
    for (size_t i = 0; i < input->runs.count; i++)
        section_summary(&input->runs.items[i], i, html);
    fputs("<div class=\"controls\" hidden>x axis "
          "<button data-axis=\"step\" aria-pressed=\"true\">steps</button>"
          "<button data-axis=\"tokens\">tokens</button>"
          "<button data-axis=\"time\">time</button></div>\n"
          "<noscript><p>The charts need JavaScript.</p></noscript>\n<div class=\"grid2\">\n",
          html);
    json_open_lines(&json, NULL, '{');
    add_axes(&input->runs, &json);
    draw_charts(input, html, &json);
    json_close(&json);
    fputs("</div>\n", html);
    add_times(input, html);
    add_details(input, html);
    fprintf(html,
            "</main>\n<script type=\"application/json\" id=\"data\">%.*s</script>\n<script>%s"
            "</script>\n</body></html>\n",
            (int)json.size, json.data, page_script);
    json_writer_clear(&json);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"
#include "chart.h"
#include "figures.h"
#include "script.h"
#include "sections.h"
#include "sha256.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Charts ---------------------------------------------------------------------------------- */

static double loss_of(const struct run *run, const struct step *s)
{
    (void)run;
    return (double)s->loss;
}

static double norm_of(const struct run *run, const struct step *s)
{
    (void)run;
    return (double)s->norm;
}

static double lr_of(const struct run *run, const struct step *s)
{
    (void)run;
    return (double)s->lr;
}

static double scale_of(const struct run *run, const struct step *s)
{
    (void)run;
    return (double)s->scale;
}

static double ms_of(const struct run *run, const struct step *s)
{
    (void)run;
    return (double)s->ms;
}

static double tflops_of(const struct run *run, const struct step *s)
{
    (void)run;
    return (double)s->tflops;
}

static double skipped_of(const struct run *run, const struct step *s)
{
    return run->skipped + run->nans > 0 ? (double)s->skipped + (double)s->nans : NAN;
}

/* Validation losses of later attempts replace those of earlier ones. */
static int add_validation(struct chart *chart, const struct run *run, size_t number,
                          struct error *err)
{
    struct series *s = &chart->series[chart->count];
    size_t room = 1;

    for (size_t i = 0; i < run->count; i++)
        room += run->attempts[i]->validation_count;
    *s = (struct series){.look = LOOK_DOTS, .run = number, .label = "validation"};
    s->points = malloc(room * sizeof(*s->points));
    if (!s->points)
        return error_set(err, "out of memory");
    chart->count++;
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->validation_count; k++) {
            const struct validation *v = &run->attempts[i]->validations[k];

            if (v->test || !isfinite(v->loss))
                continue;
            while (s->count > 0 && s->points[s->count - 1].step >= (double)v->iteration)
                s->count--;
            s->points[s->count++] = (struct point){(double)v->iteration, v->loss, NAN, 0};
        }
    s->count = series_thin(s->points, s->count, MOST_POINTS / 2);
    return 0;
}

static const struct {
    const char *id, *title, *unit;
    series_value value; /* NULL: validation loss */
    int smooth, logarithmic;
} kinds[] = {
    {"loss", "Loss", "raw, smoothed and validation", loss_of, 1, 0},
    {"validation", "Validation loss", "", NULL, 0, 0},
    {"norm", "Gradient norm", "", norm_of, 0, 1},
    {"lr", "Learning rate", "", lr_of, 0, 0},
    {"time", "Step time", "ms", ms_of, 0, 1},
    {"speed", "Throughput", "tokens/s", run_speed, 0, 0},
    {"tflops", "Throughput per GPU", "TFLOP/s", tflops_of, 0, 0},
    {"scale", "Loss scale", "", scale_of, 0, 1},
    {"skipped", "Skipped and NaN steps", "per log line", skipped_of, 0, 0},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static int add_run(struct chart *chart, size_t kind, const struct run *run, size_t number,
                   size_t most, struct error *err)
{
    if (!kinds[kind].value)
        return add_validation(chart, run, number, err);
    for (int lost = 1; lost >= 0; lost--) {
        struct series *s = &chart->series[chart->count];

        if (series_raw(s, run, kinds[kind].value, lost,
                       lost ? most * MOST_LOST_POINTS / MOST_POINTS : most, err) < 0)
            return -1;
        s->run = number;
        chart->count++;
    }
    if (!kinds[kind].smooth)
        return 0;
    if (series_smooth(&chart->series[chart->count], run, kinds[kind].value, most / 2, err) < 0)
        return -1;
    chart->series[chart->count++].run = number;
    return add_validation(chart, run, number, err);
}

/* A scale that is logarithmic by default serves spikes; without any, a linear one shows more. */
static int has_spikes(const struct chart *chart)
{
    double low = INFINITY, high = 0;

    for (size_t i = 0; i < chart->count; i++)
        for (size_t k = 0; k < chart->series[i].count; k++) {
            low = fmin(low, chart->series[i].points[k].value);
            high = fmax(high, chart->series[i].points[k].value);
        }
    return low > 0 && high > 20 * low;
}

static int make_chart(struct chart *chart, size_t kind, const struct runs *runs, struct error *err)
{
    size_t most = MOST_POINTS / (runs->count ? runs->count : 1);

    *chart =
        (struct chart){.id = kinds[kind].id, .title = kinds[kind].title, .unit = kinds[kind].unit};
    for (size_t i = 0; i < runs->count; i++)
        if (add_run(chart, kind, &runs->items[i], i, most, err) < 0)
            return -1;
    chart->logarithmic = kinds[kind].logarithmic && has_spikes(chart);
    return 0;
}

/* Power, clock or temperature of all GPUs: lowest, mean and highest. */
static int make_power_chart(struct chart *chart, const struct input *input, int which,
                            struct error *err)
{
    static const char *const ids[] = {"power", "clock", "temperature"};
    static const char *const titles[] = {"Power per GPU", "SM clock", "Temperature"};
    static const char *const units[] = {"W; lowest, mean, highest", "MHz; lowest, mean, highest",
                                        "\u00b0C; lowest, mean, highest"};
    static const char *const labels[] = {"lowest", "mean", "highest"};

    *chart = (struct chart){.id = ids[which], .title = titles[which], .unit = units[which]};
    for (size_t g = 0; g < input->group_count; g++)
        for (int level = 0; level < 3 && input->groups[g].count > 0 && chart->count < 48; level++) {
            const struct extras *e = &input->groups[g].extras;
            struct series *s = &chart->series[chart->count++];

            *s = (struct series){.look = level == 1 ? LOOK_SMOOTH : LOOK_RANGE,
                                 .run = input->groups[g].first,
                                 .label = labels[level]};
            s->points = malloc((e->power_count + 1) * sizeof(*s->points));
            if (!s->points)
                return error_set(err, "out of memory");
            for (size_t i = 0; i < e->power_count; i++) {
                const struct power *p = &e->power[i];
                const float *values = which == 0 ? p->watts : which == 1 ? p->mhz : p->celsius;

                if (isfinite(values[level]))
                    s->points[s->count++] =
                        (struct point){(double)p->iteration, (double)values[level], NAN, 0};
            }
            s->count = series_thin(s->points, s->count, MOST_LOST_POINTS);
        }
    return 0;
}

static int draw_charts(const struct input *input, struct text *html, struct text *json,
                       struct error *err)
{
    struct chart *chart = malloc(sizeof(*chart));
    int rc = 0, any = 0;

    if (!chart)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < KINDS + 3 && rc == 0; i++) {
        rc = i < KINDS ? make_chart(chart, i, &input->runs, err)
                       : make_power_chart(chart, input, (int)(i - KINDS), err);
        if (rc == 0 && !chart_is_empty(chart)) {
            chart_draw(chart, html);
            text_add(json, any ? ",\n" : "\n");
            chart_numbers(chart, json);
            any = 1;
        }
        chart_clear(chart);
    }
    free(chart);
    return rc;
}

/* --- Numbers for the script ------------------------------------------------------------------ */

static void add_list(const struct run *run, size_t every, int which, struct text *json)
{
    size_t seen = 0;
    int any = 0;

    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->step_count; k++) {
            const struct step *s = &run->attempts[i]->steps[k];
            double value = which == 0   ? (double)s->iteration
                           : which == 1 ? s->samples * (double)llabs((long long)run->seq_length)
                                        : s->elapsed;

            if (s->lost || (seen++ % every != 0 && s != run->last))
                continue;
            if (any++)
                text_add(json, ",");
            text_number(json, value, which == 2 ? 8 : 15);
        }
}

/* For each run, tokens and time at some steps, between which the script interpolates. */
static void add_axes(const struct runs *runs, struct text *json)
{
    text_add(json, "\"runs\":[");
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->items[i];
        size_t every = run->lines / 400 + 1;

        text_printf(json, "%s{\"samples\":%s,\"step\":[", i ? "," : "",
                    run->seq_length > 0 ? "false" : "true");
        add_list(run, every, 0, json);
        text_add(json, "],\"tokens\":[");
        add_list(run, every, 1, json);
        text_add(json, "],\"time\":[");
        add_list(run, every, 2, json);
        text_add(json, "]}");
    }
    text_add(json, "]");
}

/* --- Page ------------------------------------------------------------------------------------ */

static void add_head(const struct input *input, struct text *html)
{
    char hash[45];

    sha256_base64(page_script, strlen(page_script), hash);
    text_printf(html,
                "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src 'unsafe-inline'; img-src data:; script-src 'sha256-%s'\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
                hash);
    for (size_t i = 0; i < input->runs.count; i++) {
        text_add(html, i > 0 ? ", " : "");
        text_escape(html, input->runs.items[i].name);
    }
    text_printf(html, " - megatron report</title>\n<style>%s</style></head>\n<body>\n", page_style);
}

static void add_notes(const struct notes *notes, struct text *html)
{
    if (notes->count == 0)
        return;
    text_add(html, "<ul class=\"notes\">");
    for (size_t i = 0; i < notes->count; i++) {
        text_add(html, "<li>");
        text_escape(html, notes->items[i]);
        text_add(html, "</li>");
    }
    text_add(html, "</ul>\n");
}

static void add_times(const struct input *input, struct text *html)
{
    const struct runs *runs = &input->runs;

    text_add(html, "<h2>Time</h2>\n<div class=\"grid2\">\n");
    figure_timeline(runs, html);
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->count > 1) {
            text_add(html, "<h3 class=\"wide\">");
            text_escape(html, runs->items[i].name);
            text_add(html, "</h3>\n");
        }
        figure_goodput(&runs->items[i], html);
        figure_histogram(&runs->items[i], i, html);
    }
    section_percentiles(runs, html);
    for (size_t i = 0; i < input->group_count; i++)
        figure_heat(&input->groups[i].extras, html);
    text_add(html, "</div>\n");
}

static void add_details(const struct input *input, struct text *html)
{
    for (size_t g = 0; g < input->group_count; g++)
        for (size_t i = 0; i < input->groups[g].count; i++) {
            const struct run *run = &input->runs.items[input->groups[g].first + i];

            text_add(html, "<section><h2>Run ");
            text_escape(html, run->name);
            text_add(html, "</h2>\n");
            if (i == 0)
                section_extras(&input->groups[g].extras, run, html);
            section_starts(run, html);
            section_setup(run, html);
            text_add(html, "</section>\n");
        }
}

int page_write(const struct input *input, struct text *html, struct error *err)
{
    struct text json = {0};
    int rc;

    add_head(input, html);
    text_add(html, "<header><h1>Training report</h1></header>\n<main>\n");
    add_notes(&input->notes, html);
    for (size_t i = 0; i < input->runs.count; i++)
        section_summary(&input->runs.items[i], i, html);
    text_add(html, "<div class=\"controls\" hidden>x axis "
                   "<button data-axis=\"step\" aria-pressed=\"true\">steps</button>"
                   "<button data-axis=\"tokens\">tokens</button>"
                   "<button data-axis=\"time\">time</button></div>\n<div class=\"grid2\">\n");
    text_add(&json, "{");
    add_axes(&input->runs, &json);
    text_add(&json, ",\n\"charts\":[");
    rc = draw_charts(input, html, &json, err);
    text_add(&json, "]}");
    text_add(html, "</div>\n");
    add_times(input, html);
    add_details(input, html);
    text_printf(html,
                "</main>\n<script type=\"application/json\" id=\"data\">%s</script>\n<script>%s"
                "</script>\n</body></html>\n",
                json.data ? json.data : "{}", page_script);
    if (rc == 0 && (html->failed || json.failed))
        rc = error_set(err, "out of memory");
    text_clear(&json);
    return rc;
}

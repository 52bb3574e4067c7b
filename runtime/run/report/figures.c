/* SPDX-License-Identifier: Apache-2.0 */
#include "page_parts.h"
#include "chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- Timeline -------------------------------------------------------------------------------- */

enum { LINE_WIDTH = 1480, LINE_LEFT = 14, ROW = 44 };

static double across(double seconds, double span)
{
    return LINE_LEFT + seconds / span * (LINE_WIDTH - 2 * LINE_LEFT);
}

/* The time of an event: that of the step it follows. */
static double event_time(const struct attempt *a, const struct event *e)
{
    size_t at = attempt_find(a, e->iteration);

    if (a->steps.count == 0)
        return NAN;
    return a->steps.items[at < a->steps.count ? at : a->steps.count - 1].elapsed;
}

static void draw_span(const char *class, double from, double to, double span, double top,
                      FILE *html)
{
    double x = across(from, span);

    fprintf(html, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"18\"/>", class,
            x, top, fmax(across(to, span) - x, 0.5));
}

/* The time before the first step, then the steps: those that count and those that are lost. */
static void draw_steps(const struct attempt *a, double span, double top, FILE *html)
{
    double began;

    if (a->steps.count == 0)
        return;
    began = a->steps.items[0].elapsed -
            (isnan(a->steps.items[0].ms)
                 ? 0
                 : (double)a->steps.items[0].ms / 1000 * a->steps.items[0].covers);
    if (!isnan(a->first_step))
        draw_span("part1", fmax(began - a->first_step, 0), fmax(began, 0), span, top, html);
    for (size_t i = 0; i < a->steps.count;) {
        size_t k = i;
        double from = i > 0 ? a->steps.items[i - 1].elapsed : fmax(began, 0);

        while (k < a->steps.count && a->steps.items[k].lost == a->steps.items[i].lost)
            k++;
        draw_span(a->steps.items[i].lost ? "part4" : "part0", from, a->steps.items[k - 1].elapsed,
                  span, top, html);
        i = k;
    }
}

/* Saves as ticks, faults as crosses; at most one of a kind at a place. */
static void draw_events(const struct attempt *a, double span, double top, double last[EVENT_KINDS],
                        FILE *html)
{
    for (size_t i = 0; i < a->events.count; i++) {
        const struct event *e = &a->events.items[i];
        double time = event_time(a, e), x = across(isnan(time) ? 0 : time, span);

        if (isnan(time) || x < last[e->kind] + (e->kind == EVENT_FAULT ? 3 : 1.5))
            continue;
        last[e->kind] = x;
        if (e->kind == EVENT_SAVE)
            fprintf(html, "<path class=\"save\" d=\"M%.1f %.1fv6\"/>", x, top + 19);
        else if (e->kind == EVENT_FAULT)
            fprintf(html, "<path class=\"fault\" d=\"M%.1f %.1fl8 8m0 -8l-8 8\"/>", x - 4,
                    top - 10);
    }
}

static double longest(const struct runs *runs)
{
    double span = 0;

    for (size_t i = 0; i < runs->count; i++)
        for (size_t k = 0; k < runs->items[i].count; k++) {
            const struct attempt *a = runs->items[i].attempts[k];

            if (a->steps.count > 0 && isfinite(a->steps.items[a->steps.count - 1].elapsed))
                span = fmax(span, a->steps.items[a->steps.count - 1].elapsed);
        }
    return span;
}

static void draw_time_axis(double span, double top, FILE *html)
{
    static const double steps[] = {0.01, 0.1,  1,     5,     15,    60,     300,    900,
                                   3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000};
    double step = steps[0];

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && span / step > 10; i++)
        step = steps[i];
    for (int i = 0; i * step <= span && i < 1000; i++) {
        fprintf(html, "<text x=\"%.1f\" y=\"%.1f\"%s>", across(i * step, span), top,
                i % 2 ? " class=\"odd\"" : "");
        if (i > 0)
            chart_duration(html, i * step);
        else
            fputs("0", html);
        fputs("</text>", html);
    }
}

void figure_timeline(const struct runs *runs, FILE *html)
{
    double span = longest(runs);
    int height = (int)runs->count * ROW + 24;

    if (span <= 0)
        return;
    fprintf(
        html,
        "<figure class=\"wide timeline\"><figcaption><b>Timeline</b> <span class=\"unit\">time "
        "since "
        "the first start; ticks below a bar are saves, crosses above it faults"
        "</span></figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"timeline\">",
        LINE_WIDTH, height);
    for (size_t i = 0; i < runs->count; i++) {
        double top = (double)i * ROW + 13, last[EVENT_KINDS] = {-9, -9, -9};

        for (size_t k = 0; k < runs->items[i].count; k++)
            draw_steps(runs->items[i].attempts[k], span, top, html);
        for (size_t k = 0; k < runs->items[i].count; k++)
            draw_events(runs->items[i].attempts[k], span, top, last, html);
    }
    fputs("<g class=\"grid x\">", html);
    draw_time_axis(span, height - 6, html);
    fputs("</g></svg></figure>\n", html);
}

/* --- Goodput --------------------------------------------------------------------------------- */

void figure_goodput(const struct run *run, FILE *html)
{
    static const char *const names[SPENT_KINDS] = {"training",          "starting",   "saving",
                                                   "evaluation, other", "lost steps", "down"};
    double x = 0;

    if (run->span <= 0)
        return;
    fputs("<figure class=\"wide\"><figcaption><b>Where the time went</b> <span "
          "class=\"unit\">",
          html);
    fprintf(html, "%.1f %% goodput", 100 * run->seconds[SPENT_TRAINING] / run->span);
    fputs(run->clocked ? "" : "; the log has no times, so time between starts is unknown", html);
    fputs("</span></figcaption>\n<svg class=\"bar\" viewBox=\"0 0 1000 24\" "
          "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"time by cause\">",
          html);
    for (int i = 0; i < SPENT_KINDS; i++) {
        double width = 1000 * run->seconds[i] / run->span;

        if (width > 0)
            fprintf(html, "<rect class=\"part%d\" x=\"%.2f\" width=\"%.2f\" height=\"24\"/>", i, x,
                    width);
        x += width;
    }
    fputs("</svg><ul class=\"key\">", html);
    for (int i = 0; i < SPENT_KINDS; i++) {
        if (run->seconds[i] <= 0)
            continue;
        fprintf(html, "<li><i class=\"part%d\"></i>%s <b>%.1f %%</b> ", i, names[i],
                100 * run->seconds[i] / run->span);
        chart_duration(html, run->seconds[i]);
        fputs("</li>", html);
    }
    fputs("</ul></figure>\n", html);
}

/* --- Heat map -------------------------------------------------------------------------------- */

static double mean_of(const struct rank_time *r)
{
    return r->count > 0 ? r->total / (double)r->count : NAN;
}

/* Ranks of one host follow each other in nearly all layouts; a row is a stretch of one host. */
void figure_heat(const struct extras *e, FILE *html)
{
    double low = INFINITY, high = -INFINITY;
    const char *before = NULL;

    for (size_t i = 0; i < e->ranks.count; i++) {
        low = fmin(low, mean_of(&e->ranks.items[i]));
        high = fmax(high, mean_of(&e->ranks.items[i]));
    }
    if (!(high >= low))
        return;
    fprintf(html,
            "<figure class=\"wide\"><figcaption><b>Step time by host and rank</b> <span "
            "class=\"unit\">mean, %.4g ms (faint) to %.4g ms (strong)</span></figcaption>\n"
            "<div class=\"heat\">",
            low, high);
    for (size_t i = 0; i < e->ranks.count; i++) {
        const char *host = e->ranks.items[i].host ? e->ranks.items[i].host : "";
        double ms = mean_of(&e->ranks.items[i]);
        int level = high > low && !isnan(ms) ? (int)(9.999 * (ms - low) / (high - low)) : 0;

        if (!before || strcmp(host, before) != 0) {
            fputs(before ? "</div>\n<div><b title=\"" : "<div><b title=\"", html);
            text_escape(host, html);
            fputs("\">", html);
            text_escape(host, html);
            fputs("</b>", html);
        }
        fprintf(html, "<i class=\"h%d\" title=\"rank %zu: %.4g ms\"></i>", level, i, ms);
        before = host;
    }
    fputs("</div></div></figure>\n", html);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sections.h"
#include "chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* Rows of a table that are shown; the rest is counted. */
enum { MOST_ROWS = 200 };

static void tile(struct text *html, const char *name, double value, const char *unit)
{
    if (!isfinite(value))
        return;
    text_printf(html, "<div><dt>%s</dt><dd>", name);
    chart_number(html, value);
    text_printf(html, "%s</dd></div>", unit);
}

static double last_validation(const struct run *run)
{
    for (size_t i = run->count; i-- > 0;)
        for (size_t k = run->attempts[i]->validation_count; k-- > 0;)
            if (!run->attempts[i]->validations[k].test)
                return run->attempts[i]->validations[k].loss;
    return NAN;
}

static double last_loss(const struct run *run)
{
    for (size_t i = run->count; i-- > 0;)
        for (size_t k = run->attempts[i]->step_count; k-- > 0;)
            if (!isnan(run->attempts[i]->steps[k].loss))
                return (double)run->attempts[i]->steps[k].loss;
    return NAN;
}

void section_summary(const struct run *run, size_t number, struct text *html)
{
    double tokens =
        run->last && run->seq_length > 0 ? run->last->samples * (double)run->seq_length : NAN;
    size_t starts = run->count;

    text_printf(html, "<section class=\"summary\"><h2 data-run=\"%zu\"><i class=\"c%zu\"></i>",
                number, number % COLOURS);
    text_escape(html, run->name);
    text_printf(html, "</h2><p>%s", run_status(run));
    if (run->last && run->total > 0)
        text_printf(html, ": step %" PRId64 " of %" PRId64, run->last->iteration, run->total);
    else if (run->last)
        text_printf(html, ": step %" PRId64, run->last->iteration);
    text_add(html, "</p><dl class=\"tiles\">");
    tile(html, "loss", last_loss(run), "");
    tile(html, "validation loss", last_validation(run), "");
    tile(html, "tokens", tokens, "");
    tile(html, "tokens/s", run->tokens_per_second, "");
    tile(html, "TFLOP/s per GPU", run->tflops, "");
    tile(html, "MFU", 100 * run->tflops / run->peak, " %");
    if (run->median < 10000)
        tile(html, "median step", run->median, " ms");
    else
        tile(html, "median step", run->median / 1000, " s");
    tile(html, "memory, fullest rank", run->attempts[starts - 1]->memory, " GiB");
    tile(html, "goodput",
         run->span > 0 ? round(1000 * run->seconds[SPENT_TRAINING] / run->span) / 10 : NAN, " %");
    tile(html, "starts", (double)starts, "");
    tile(html, "lost steps", (double)run->lost, "");
    tile(html, "skipped steps", (double)run->skipped, "");
    if (run->nans > 0)
        tile(html, "NaN steps", (double)run->nans, "");
    text_add(html, "</dl></section>\n");
}

/* --- Starts ---------------------------------------------------------------------------------- */

static void cell_time(struct text *html, double time)
{
    time_t seconds = isfinite(time) && fabs(time) < 1e11 ? (time_t)time : -1;
    struct tm parts;
    char text[40];

    text_add(html, "<td class=\"t\">");
    if (seconds >= 0 && gmtime_r(&seconds, &parts) &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) > 0)
        text_add(html, text);
    text_add(html, "</td>");
}

static void cell_number(struct text *html, int64_t number)
{
    if (number >= 0)
        text_printf(html, "<td class=\"n\">%" PRId64 "</td>", number);
    else
        text_add(html, "<td></td>");
}

static void cell_text(struct text *html, const char *words)
{
    text_add(html, "<td>");
    text_escape(html, words ? words : "");
    text_add(html, "</td>");
}

/* The message that explains the end best: the first fault that says more than that there is one. */
static const char *end_of(const struct attempt *a)
{
    const char *text = NULL;

    for (size_t i = 0; i < a->event_count; i++) {
        const struct event *e = &a->events[i];

        if (e->kind == EVENT_FAULT && e->text && !strstr(e->text, "Traceback"))
            return e->text;
        if (e->kind != EVENT_SAVE)
            text = e->text;
    }
    return a->finished ? "finished" : text;
}

static void start_row(const struct run *run, size_t number, struct text *html)
{
    const struct attempt *a = run->attempts[number];
    int64_t lost = 0, saves = 0;

    for (size_t i = 0; i < a->step_count; i++)
        lost += a->steps[i].lost ? a->steps[i].covers : 0;
    for (size_t i = 0; i < a->event_count; i++)
        saves += a->events[i].kind == EVENT_SAVE;
    text_printf(html, "<tr><td class=\"n\">%zu</td>", number + 1);
    cell_time(html, isnan(a->time) && a->step_count > 0 ? a->steps[0].time : a->time);
    cell_text(html, a->host);
    cell_number(html, a->resumed);
    cell_number(html, a->step_count > 0 ? a->steps[0].iteration : -1);
    cell_number(html, attempt_last(a));
    cell_number(html, lost);
    cell_number(html, saves);
    text_add(html, "<td class=\"n\">");
    if (!isnan(a->first_step))
        chart_duration(html, a->first_step);
    text_add(html, "</td>");
    text_add(html, "<td class=\"e\">");
    text_escape(html, end_of(a) ? end_of(a) : "");
    text_add(html, "</td></tr>\n");
}

void section_starts(const struct run *run, struct text *html)
{
    size_t shown = run->count < MOST_ROWS ? run->count : MOST_ROWS;

    text_add(html, "<h3>Starts</h3><div class=\"scroll\"><table><thead><tr><th>#</th><th>time "
                   "(UTC)</th><th>host</th><th>resumed from</th><th>first line</th><th>last "
                   "line</th><th>lost steps</th><th>saves</th><th>time to first step</th><th>end"
                   "</th></tr></thead><tbody>\n");
    for (size_t i = run->count - shown; i < run->count; i++)
        start_row(run, i, html);
    text_add(html, "</tbody></table></div>\n");
    if (shown < run->count)
        text_printf(html, "<p>%zu earlier start%s not listed.</p>\n", run->count - shown,
                    run->count - shown == 1 ? " is" : "s are");
}

void section_percentiles(const struct runs *runs, struct text *html)
{
    text_add(html, "<figure class=\"scroll\"><table><thead><tr><th>step time, ms</th><th>mean</th>"
                   "<th>median</th><th>p90</th><th>p99</th><th>longest</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *r = &runs->items[i];
        double values[] = {r->mean, r->median, r->p90, r->p99, r->most};

        text_add(html, "<tr>");
        cell_text(html, r->name);
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            text_add(html, "<td class=\"n\">");
            chart_number(html, values[k]);
            text_add(html, "</td>");
        }
        text_add(html, "</tr>\n");
    }
    text_add(html, "</tbody></table></figure>\n");
}

/* --- Setup ----------------------------------------------------------------------------------- */

static void line_of(struct text *html, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    text_printf(html, "<tr><th>%s</th>", name);
    cell_text(html, value);
    text_add(html, "</tr>\n");
}

void section_setup(const struct run *run, struct text *html)
{
    const struct attempt *a = run->attempts[run->count - 1];

    if (a->command && *a->command) {
        text_add(html, "<h3>Command</h3><pre>");
        text_escape(html, a->command);
        text_add(html, "</pre>\n");
    }
    text_add(html, "<div class=\"scroll\"><table><tbody>\n");
    line_of(html, "program", a->program);
    line_of(html, "job", a->job);
    line_of(html, "device", a->device);
    line_of(html, "memory of the fullest rank", a->memory_text);
    if (run->world_size > 0)
        text_printf(html, "<tr><th>ranks</th><td>%" PRId64 "</td></tr>\n", run->world_size);
    line_of(html, "file", a->file);
    text_add(html, "</tbody></table></div>\n");
    if (a->argument_count == 0)
        return;
    text_printf(html,
                "<details><summary>%zu arguments</summary><table class=\"arguments\"><tbody>\n",
                a->argument_count);
    for (size_t i = 0; i < a->argument_count; i++) {
        text_add(html, "<tr><th>");
        text_escape(html, a->arguments[i].name);
        text_add(html, "</th>");
        cell_text(html, a->arguments[i].value);
        text_add(html, "</tr>\n");
    }
    text_add(html, "</tbody></table></details>\n");
}

/* --- Extras ---------------------------------------------------------------------------------- */

static int severity(const struct check *c)
{
    return c->verdict && strcmp(c->verdict, "fail") == 0   ? 0
           : c->verdict && strcmp(c->verdict, "warn") == 0 ? 1
                                                           : 2;
}

static void check_row(const struct check *c, struct text *html)
{
    text_printf(html, "<tr class=\"v%d\">", severity(c));
    cell_text(html, c->verdict);
    cell_text(html, c->host);
    cell_text(html, c->name);
    cell_text(html, c->value);
    cell_text(html, c->expected);
    cell_text(html, c->advice);
    text_add(html, "</tr>\n");
}

/* Checks that failed, the worst first; those that passed are counted. */
static void checks(const struct extras *e, struct text *html)
{
    size_t passed = 0, shown = 0;

    if (e->check_count == 0)
        return;
    for (size_t i = 0; i < e->check_count; i++)
        passed += severity(&e->checks[i]) == 2;
    text_printf(html, "<h3>Preflight</h3><p>%zu of %zu checks passed.</p>\n", passed,
                e->check_count);
    if (passed == e->check_count)
        return;
    text_add(html, "<div class=\"scroll\"><table><thead><tr><th>verdict</th><th>host</th><th>check"
                   "</th><th>value</th><th>expected</th><th>what to do</th></tr></thead><tbody>\n");
    for (int level = 0; level < 2; level++)
        for (size_t i = 0; i < e->check_count && shown < MOST_ROWS; i++)
            if (severity(&e->checks[i]) == level) {
                check_row(&e->checks[i], html);
                shown++;
            }
    text_add(html, "</tbody></table></div>\n");
}

static void placement(const struct extras *e, struct text *html)
{
    if (e->place_count == 0)
        return;
    text_add(html, "<h3>Placement</h3><div class=\"places\">\n");
    for (size_t i = 0; i < e->place_count && i < 1024; i++) {
        const struct place *p = &e->places[i];

        if (i == 0 || strcmp(p->host ? p->host : "",
                             e->places[i - 1].host ? e->places[i - 1].host : "") != 0) {
            text_add(html, i > 0 ? "</div><div class=\"host\"><b>" : "<div class=\"host\"><b>");
            text_escape(html, p->host ? p->host : "");
            text_add(html, "</b>");
        }
        text_printf(html, "<div class=\"task\">%s <b>", p->rank >= 0 ? "rank" : "task");
        text_escape(html, p->task ? p->task : "");
        text_add(html, p->gpus && p->gpus[0] ? "</b> GPU " : "</b>");
        text_escape(html, p->gpus ? p->gpus : "");
        text_add(html, "<br><small>CPUs ");
        text_escape(html, p->cpus ? p->cpus : "");
        text_add(html, "<br>");
        text_escape(html, p->nics ? p->nics : "");
        text_add(html, "</small></div>\n");
    }
    text_add(html, "</div></div>\n");
}

static void plan_row(struct text *html, const char *name, double plan, double fact)
{
    if (!isfinite(plan))
        return;
    text_printf(html, "<tr><th>%s</th><td class=\"n\">", name);
    chart_number(html, plan);
    text_add(html, "</td><td class=\"n\">");
    chart_number(html, fact);
    text_add(html, "</td><td class=\"n\">");
    if (isfinite(fact) && plan != 0)
        text_printf(html, "%+.1f %%", 100 * (fact / plan - 1));
    text_add(html, "</td></tr>\n");
}

void section_extras(const struct extras *e, const struct run *run, struct text *html)
{
    if (e->plan_layout) {
        text_add(html, "<h3>Plan and measurement</h3><p>");
        text_escape(html, e->plan_layout);
        text_add(html, "</p><div class=\"scroll\"><table><thead><tr><th></th><th>planned</th><th>"
                       "measured</th><th>difference</th></tr></thead><tbody>\n");
        plan_row(html, "step time, s", e->plan_step, run->median / 1000);
        plan_row(html, "TFLOP/s per GPU", e->plan_tflops, run->tflops);
        plan_row(html, "tokens/s", e->plan_tokens, run->tokens_per_second);
        plan_row(html, "memory of the fullest rank, GiB", e->plan_memory,
                 run->attempts[run->count - 1]->memory);
        text_add(html, "</tbody></table></div>\n");
    }
    checks(e, html);
    placement(e, html);
}

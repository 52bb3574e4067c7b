/* SPDX-License-Identifier: Apache-2.0 */
#include "page_parts.h"
#include "chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* Rows of a table that are shown; the rest is counted. */
enum { MOST_ROWS = 200 };

static void tile(FILE *html, const char *name, double value, const char *unit)
{
    if (!isfinite(value))
        return;
    fprintf(html, "<div><dt>%s</dt><dd>", name);
    chart_number(html, value);
    fprintf(html, "%s</dd></div>", unit);
}

static double last_validation(const struct run *run)
{
    for (size_t i = run->count; i-- > 0;)
        for (size_t k = run->attempts[i]->validations.count; k-- > 0;)
            if (!run->attempts[i]->validations.items[k].test)
                return run->attempts[i]->validations.items[k].loss;
    return NAN;
}

static double last_loss(const struct run *run)
{
    for (size_t i = run->count; i-- > 0;)
        for (size_t k = run->attempts[i]->steps.count; k-- > 0;)
            if (!isnan(run->attempts[i]->steps.items[k].loss))
                return (double)run->attempts[i]->steps.items[k].loss;
    return NAN;
}

void section_summary(const struct run *run, size_t number, FILE *html)
{
    double tokens =
        run->last && run->seq_length > 0 ? run->last->samples * (double)run->seq_length : NAN;
    size_t starts = run->count;

    fprintf(html, "<section class=\"summary\"><h2 data-run=\"%zu\"><i class=\"c%zu\"></i>", number,
            number % COLORS);
    text_escape(run->name, html);
    fprintf(html, "</h2><p>%s", run_status(run));
    if (run->last && run->total > 0)
        fprintf(html, ": step %" PRId64 " of %" PRId64, run->last->iteration, run->total);
    else if (run->last)
        fprintf(html, ": step %" PRId64, run->last->iteration);
    fputs("</p><dl class=\"tiles\">", html);
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
    fputs("</dl></section>\n", html);
}

/* --- Starts ---------------------------------------------------------------------------------- */

static void cell_time(FILE *html, double time)
{
    time_t seconds = isfinite(time) && fabs(time) < 1e11 ? (time_t)time : -1;
    struct tm parts;
    char text[40];

    fputs("<td class=\"t\">", html);
    if (seconds >= 0 && gmtime_r(&seconds, &parts) &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) > 0)
        fputs(text, html);
    fputs("</td>", html);
}

static void cell_number(FILE *html, int64_t number)
{
    if (number >= 0)
        fprintf(html, "<td class=\"n\">%" PRId64 "</td>", number);
    else
        fputs("<td></td>", html);
}

static void cell_text(FILE *html, const char *words)
{
    fputs("<td>", html);
    text_escape(words ? words : "", html);
    fputs("</td>", html);
}

/* The message that explains the end best: the first fault that says more than that there is one. */
static const char *end_of(const struct attempt *a)
{
    const char *text = NULL;

    for (size_t i = 0; i < a->events.count; i++) {
        const struct event *e = &a->events.items[i];

        if (e->kind == EVENT_FAULT && e->text && !strstr(e->text, "Traceback"))
            return e->text;
        if (e->kind != EVENT_SAVE)
            text = e->text;
    }
    return a->finished ? "finished" : text;
}

static void start_row(const struct run *run, size_t number, FILE *html)
{
    const struct attempt *a = run->attempts[number];
    int64_t lost = 0, saves = 0;

    for (size_t i = 0; i < a->steps.count; i++)
        lost += a->steps.items[i].lost ? a->steps.items[i].covers : 0;
    for (size_t i = 0; i < a->events.count; i++)
        saves += a->events.items[i].kind == EVENT_SAVE;
    fprintf(html, "<tr><td class=\"n\">%zu</td>", number + 1);
    cell_time(html, isnan(a->time) && a->steps.count > 0 ? a->steps.items[0].time : a->time);
    cell_text(html, a->host);
    cell_number(html, a->resumed);
    cell_number(html, a->steps.count > 0 ? a->steps.items[0].iteration : -1);
    cell_number(html, attempt_last(a));
    cell_number(html, lost);
    cell_number(html, saves);
    fputs("<td class=\"n\">", html);
    if (!isnan(a->first_step))
        chart_duration(html, a->first_step);
    fputs("</td>", html);
    fputs("<td class=\"e\">", html);
    text_escape(end_of(a) ? end_of(a) : "", html);
    fputs("</td></tr>\n", html);
}

void section_starts(const struct run *run, FILE *html)
{
    size_t shown = run->count < MOST_ROWS ? run->count : MOST_ROWS;

    fputs("<h3>Starts</h3><div class=\"scroll\"><table><thead><tr><th>#</th><th>time "
          "(UTC)</th><th>host</th><th>resumed from</th><th>first line</th><th>last "
          "line</th><th>lost steps</th><th>saves</th><th>time to first step</th><th>end"
          "</th></tr></thead><tbody>\n",
          html);
    for (size_t i = run->count - shown; i < run->count; i++)
        start_row(run, i, html);
    fputs("</tbody></table></div>\n", html);
    if (shown < run->count)
        fprintf(html, "<p>%zu earlier start%s not listed.</p>\n", run->count - shown,
                run->count - shown == 1 ? " is" : "s are");
}

void section_percentiles(const struct runs *runs, FILE *html)
{
    fputs("<figure class=\"scroll\"><table><thead><tr><th>step time, ms</th><th>mean</th>"
          "<th>median</th><th>p90</th><th>p99</th><th>longest</th></tr></thead><tbody>\n",
          html);
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *r = &runs->items[i];
        double values[] = {r->mean, r->median, r->p90, r->p99, r->most};

        fputs("<tr>", html);
        cell_text(html, r->name);
        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            fputs("<td class=\"n\">", html);
            chart_number(html, values[k]);
            fputs("</td>", html);
        }
        fputs("</tr>\n", html);
    }
    fputs("</tbody></table></figure>\n", html);
}

/* --- Setup ----------------------------------------------------------------------------------- */

static void line_of(FILE *html, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    fprintf(html, "<tr><th>%s</th>", name);
    cell_text(html, value);
    fputs("</tr>\n", html);
}

void section_setup(const struct run *run, FILE *html)
{
    const struct attempt *a = run->attempts[run->count - 1];

    if (a->command && *a->command) {
        fputs("<h3>Command</h3><pre>", html);
        text_escape(a->command, html);
        fputs("</pre>\n", html);
    }
    fputs("<div class=\"scroll\"><table><tbody>\n", html);
    line_of(html, "program", a->program);
    line_of(html, "job", a->job);
    line_of(html, "device", a->device);
    line_of(html, "memory of the fullest rank", a->memory_text);
    if (run->world_size > 0)
        fprintf(html, "<tr><th>ranks</th><td>%" PRId64 "</td></tr>\n", run->world_size);
    line_of(html, "file", a->file);
    fputs("</tbody></table></div>\n", html);
    if (a->arguments.count == 0)
        return;
    fprintf(html, "<details><summary>%zu arguments</summary><table class=\"arguments\"><tbody>\n",
            a->arguments.count);
    for (size_t i = 0; i < a->arguments.count; i++) {
        fputs("<tr><th>", html);
        text_escape(a->arguments.items[i].name, html);
        fputs("</th>", html);
        cell_text(html, a->arguments.items[i].value);
        fputs("</tr>\n", html);
    }
    fputs("</tbody></table></details>\n", html);
}

/* --- Extras ---------------------------------------------------------------------------------- */

static int severity(const struct check *c)
{
    return c->verdict && strcmp(c->verdict, "fail") == 0   ? 0
           : c->verdict && strcmp(c->verdict, "warn") == 0 ? 1
                                                           : 2;
}

static void check_row(const struct check *c, FILE *html)
{
    fprintf(html, "<tr class=\"v%d\">", severity(c));
    cell_text(html, c->verdict);
    cell_text(html, c->host);
    cell_text(html, c->name);
    cell_text(html, c->value);
    cell_text(html, c->expected);
    cell_text(html, c->advice);
    fputs("</tr>\n", html);
}

/* Checks that failed, the worst first; those that passed are counted. */
static void checks(const struct extras *e, FILE *html)
{
    size_t passed = 0, shown = 0;

    if (e->checks.count == 0)
        return;
    for (size_t i = 0; i < e->checks.count; i++)
        passed += severity(&e->checks.items[i]) == 2;
    fprintf(html, "<h3>Preflight</h3><p>%zu of %zu checks passed.</p>\n", passed, e->checks.count);
    if (passed == e->checks.count)
        return;
    fputs("<div class=\"scroll\"><table><thead><tr><th>verdict</th><th>host</th><th>check"
          "</th><th>value</th><th>expected</th><th>what to do</th></tr></thead><tbody>\n",
          html);
    for (int level = 0; level < 2; level++)
        for (size_t i = 0; i < e->checks.count && shown < MOST_ROWS; i++)
            if (severity(&e->checks.items[i]) == level) {
                check_row(&e->checks.items[i], html);
                shown++;
            }
    fputs("</tbody></table></div>\n", html);
}

static void placement(const struct extras *e, FILE *html)
{
    if (e->places.count == 0)
        return;
    fputs("<h3>Placement</h3><div class=\"places\">\n", html);
    for (size_t i = 0; i < e->places.count && i < 1024; i++) {
        const struct place *p = &e->places.items[i];

        if (i == 0 || strcmp(p->host ? p->host : "",
                             e->places.items[i - 1].host ? e->places.items[i - 1].host : "") != 0) {
            fputs(i > 0 ? "</div><div class=\"host\"><b>" : "<div class=\"host\"><b>", html);
            text_escape(p->host ? p->host : "", html);
            fputs("</b>", html);
        }
        fprintf(html, "<div class=\"task\">%s <b>", p->rank >= 0 ? "rank" : "task");
        text_escape(p->task ? p->task : "", html);
        fputs(p->gpus && p->gpus[0] ? "</b> GPU " : "</b>", html);
        text_escape(p->gpus ? p->gpus : "", html);
        fputs("<br><small>CPUs ", html);
        text_escape(p->cpus ? p->cpus : "", html);
        fputs("<br>", html);
        text_escape(p->nics ? p->nics : "", html);
        fputs("</small></div>\n", html);
    }
    fputs("</div></div>\n", html);
}

static void plan_row(FILE *html, const char *name, double plan, double fact)
{
    if (!isfinite(plan))
        return;
    fprintf(html, "<tr><th>%s</th><td class=\"n\">", name);
    chart_number(html, plan);
    fputs("</td><td class=\"n\">", html);
    chart_number(html, fact);
    fputs("</td><td class=\"n\">", html);
    if (isfinite(fact) && plan != 0)
        fprintf(html, "%+.1f %%", 100 * (fact / plan - 1));
    fputs("</td></tr>\n", html);
}

void section_extras(const struct extras *e, const struct run *run, FILE *html)
{
    if (e->plan_layout) {
        fputs("<h3>Plan and measurement</h3><p>", html);
        text_escape(e->plan_layout, html);
        fputs("</p><div class=\"scroll\"><table><thead><tr><th></th><th>planned</th><th>"
              "measured</th><th>difference</th></tr></thead><tbody>\n",
              html);
        plan_row(html, "step time, s", e->plan_step, run->median / 1000);
        plan_row(html, "TFLOP/s per GPU", e->plan_tflops, run->tflops);
        plan_row(html, "tokens/s", e->plan_tokens, run->tokens_per_second);
        plan_row(html, "memory of the fullest rank, GiB", e->plan_memory,
                 run->attempts[run->count - 1]->memory);
        fputs("</tbody></table></div>\n", html);
    }
    checks(e, html);
    placement(e, html);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "findings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/report_records.h"
#include "base/core/list.h"

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {"ok", "warn", "fail"};

    return names[verdict];
}

static int by_check(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    int by_host = strcmp(x->host, y->host), by_name = strcmp(x->check, y->check);

    if (by_host || by_name)
        return by_host ? by_host : by_name;
    if (x->verdict != y->verdict)
        return x->verdict > y->verdict ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Of the verdicts of a node about one check, keep the most severe one, which was added first. */
static void drop_repeated(struct findings *findings)
{
    size_t kept = 0;

    qsort(findings->items, findings->count, sizeof(*findings->items), by_check);
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *last = kept > 0 ? &findings->items[kept - 1] : NULL;

        if (!last || strcmp(last->host, findings->items[i].host) != 0 ||
            strcmp(last->check, findings->items[i].check) != 0)
            findings->items[kept++] = findings->items[i];
    }
    findings->count = kept;
}

void findings_add(struct findings *findings, const struct finding *finding)
{
    struct finding *added;

    /* A job of thousands of ranks has hundreds of thousands of verdicts, most of them repeated. */
    if (findings->count > 0 && findings->count == findings->room) {
        drop_repeated(findings);
        if (2 * findings->count > findings->room)
            list_reserve(findings, findings->room + 1 - findings->count);
    }
    added = list_add(findings);
    *added = *finding;
    added->order = findings->added++;
}

void findings_clear(struct findings *findings)
{
    free(findings->items);
    memset(findings, 0, sizeof(*findings));
}

static int in_order(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    int by_host = strverscmp(x->host, y->host);

    if (x->verdict != y->verdict)
        return x->verdict > y->verdict ? -1 : 1;
    return by_host ? by_host : strcmp(x->check, y->check);
}

void findings_sort(struct findings *findings)
{
    if (findings->count == 0)
        return;
    drop_repeated(findings);
    qsort(findings->items, findings->count, sizeof(*findings->items), in_order);
}

enum verdict findings_worst(const struct findings *findings, const char *host)
{
    enum verdict worst = VERDICT_OK;

    for (size_t i = 0; i < findings->count; i++)
        if ((!host || strcmp(findings->items[i].host, host) == 0) &&
            findings->items[i].verdict > worst)
            worst = findings->items[i].verdict;
    return worst;
}

void findings_print(const struct findings *findings, bool all, FILE *out)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->items[i];

        if (f->verdict == VERDICT_OK && !all)
            continue;
        fprintf(out, "%-4s  %s  %s: %s", verdict_name(f->verdict), f->host, f->check, f->value);
        if (f->expected[0])
            fprintf(out, " (expected: %s)", f->expected);
        fprintf(out, "\n");
        if (f->verdict != VERDICT_OK && f->advice[0])
            fprintf(out, "      %s\n", f->advice);
    }
}

void findings_put(const struct finding *f, struct json_writer *json)
{
    json_put_string(json, "host", f->host);
    json_put_string(json, "check", f->check);
    json_put_string(json, "verdict", verdict_name(f->verdict));
    json_put_string(json, "value", f->value);
    json_put_string(json, "expected", f->expected);
    json_put_string(json, "advice", f->advice);
}

void findings_write_records(const struct findings *findings, double time, FILE *out)
{
    struct json_writer json = {.stream = out};

    for (size_t i = 0; i < findings->count; i++) {
        json_open(&json, NULL, '{');
        json_put_string(&json, "record", "preflight");
        json_put_integer(&json, "version", RECORDS_VERSION);
        json_put_fixed(&json, "time", time, 3);
        findings_put(&findings->items[i], &json);
        json_close(&json);
        json_end_line(&json);
    }
}

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

/* FNV-1a of host and check. */
static size_t hash_of(const char *host, const char *check)
{
    uint64_t hash = 14695981039346656037u;

    for (const char *at = host; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    hash = (hash ^ '/') * 1099511628211u;
    for (const char *at = check; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    return (size_t)hash;
}

/* The slot of a verdict: that of the item, or the empty one where it belongs. */
static size_t *slot_of(const struct findings *findings, const char *host, const char *check)
{
    size_t at = hash_of(host, check) & (findings->slots - 1);

    while (findings->index[at]) {
        const struct finding *item = &findings->items[findings->index[at] - 1];

        if (strcmp(item->host, host) == 0 && strcmp(item->check, check) == 0)
            break;
        at = (at + 1) & (findings->slots - 1);
    }
    return &findings->index[at];
}

/* Make the index at most half full: a job of thousands of ranks has tens of thousands of verdicts.
 */
static void grow_index(struct findings *findings)
{
    if (2 * (findings->count + 1) <= findings->slots)
        return;
    free(findings->index);
    findings->slots = findings->slots ? 2 * findings->slots : 256;
    while (2 * (findings->count + 1) > findings->slots)
        findings->slots *= 2;
    findings->index = xcalloc(findings->slots, sizeof(*findings->index));
    for (size_t i = 0; i < findings->count; i++)
        *slot_of(findings, findings->items[i].host, findings->items[i].check) = i + 1;
}

void findings_add(struct findings *findings, const struct finding *finding)
{
    size_t *slot;

    grow_index(findings);
    slot = slot_of(findings, finding->host, finding->check);
    if (*slot == 0) {
        *list_add(findings) = *finding;
        *slot = findings->count;
    } else if (finding->verdict > findings->items[*slot - 1].verdict) {
        findings->items[*slot - 1] = *finding;
    }
}

void findings_clear(struct findings *findings)
{
    free(findings->items);
    free(findings->index);
    memset(findings, 0, sizeof(*findings));
}

void findings_doubt(struct findings *findings, const char *host, const char *check)
{
    size_t *slot = findings->slots > 0 ? slot_of(findings, host, check) : NULL;

    if (slot && *slot)
        findings->items[*slot - 1].in_doubt = true;
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
    findings->slots = 0;
    if (findings->count > 0)
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

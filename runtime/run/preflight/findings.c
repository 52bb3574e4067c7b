/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "findings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/report_records.h"

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

/* Room for one more item, and an index that is at most half full: a job of thousands of ranks has
 * tens of thousands of verdicts. */
static int make_room(struct findings *findings)
{
    if (findings->count == findings->room) {
        size_t room = findings->room ? 2 * findings->room : 64;
        struct finding *more = reallocarray(findings->items, room, sizeof(*more));

        if (!more)
            return -1;
        findings->items = more;
        findings->room = room;
    }
    if (2 * (findings->count + 1) > findings->slots) {
        free(findings->index);
        findings->slots = 4 * findings->room;
        findings->index = calloc(findings->slots, sizeof(*findings->index));
        if (!findings->index) {
            findings->slots = 0;
            return -1;
        }
        for (size_t i = 0; i < findings->count; i++)
            *slot_of(findings, findings->items[i].host, findings->items[i].check) = i + 1;
    }
    return 0;
}

void findings_add(struct findings *findings, const struct finding *finding)
{
    size_t *slot;

    if (make_room(findings) < 0) {
        findings->out_of_memory = 1;
        return;
    }
    slot = slot_of(findings, finding->host, finding->check);
    if (*slot == 0) {
        findings->items[findings->count++] = *finding;
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
        findings->items[*slot - 1].in_doubt = 1;
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

void findings_print(const struct findings *findings, int all, FILE *out)
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

void findings_quote(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void findings_write_records(const struct findings *findings, double time, FILE *out)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *f = &findings->items[i];
        const struct {
            const char *name, *text;
        } members[] = {
            {"host", f->host},   {"check", f->check},       {"verdict", verdict_name(f->verdict)},
            {"value", f->value}, {"expected", f->expected}, {"advice", f->advice}};

        fprintf(out, "{\"record\":\"preflight\",\"version\":%d,\"time\":%.3f", RECORDS_VERSION,
                time);
        for (size_t k = 0; k < sizeof(members) / sizeof(*members); k++) {
            fprintf(out, ",\"%s\":", members[k].name);
            findings_quote(members[k].text, out);
        }
        fprintf(out, "}\n");
    }
}

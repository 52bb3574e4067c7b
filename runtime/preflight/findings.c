/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "findings.h"

#include <stdlib.h>
#include <string.h>

#include "report_records.h"

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {"ok", "warn", "fail"};

    return names[verdict];
}

void findings_add(struct findings *findings, const struct finding *finding)
{
    struct finding *more;

    for (size_t i = 0; i < findings->count; i++) {
        struct finding *old = &findings->items[i];

        if (strcmp(old->host, finding->host) != 0 || strcmp(old->check, finding->check) != 0)
            continue;
        if (finding->verdict > old->verdict)
            *old = *finding;
        return;
    }
    more = reallocarray(findings->items, findings->count + 1, sizeof(*more));
    if (!more) {
        findings->out_of_memory = 1;
        return;
    }
    findings->items = more;
    findings->items[findings->count++] = *finding;
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

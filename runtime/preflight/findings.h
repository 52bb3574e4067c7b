/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts: one per node and check, with what was measured, what was expected and what to do. */
#ifndef MEGATRON_FINDINGS_H
#define MEGATRON_FINDINGS_H

#include <stddef.h>
#include <stdio.h>
#include "error.h"

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };
const char *verdict_name(enum verdict verdict);

struct finding {
    char host[64];
    char check[24];
    enum verdict verdict;
    char value[280], expected[96], advice[200];
};

struct findings {
    struct finding *items;
    size_t count;
    int out_of_memory;
};

/* Add a verdict, unless the node already has one at least as severe for this check. */
void findings_add(struct findings *findings, const struct finding *finding);
void findings_clear(struct findings *findings);

/* Order by severity, then host, then check. */
void findings_sort(struct findings *findings);

/* The worst verdict of a host (NULL: of all). */
enum verdict findings_worst(const struct findings *findings, const char *host);

/* One block per verdict that is not "ok", in words; with 'all', also those. */
void findings_print(const struct findings *findings, int all, FILE *out);

/* One record per line, as `megatron report` reads them. */
void findings_write_records(const struct findings *findings, double time, FILE *out);

/* JSON text, quoted. */
void findings_quote(const char *text, FILE *out);

#endif

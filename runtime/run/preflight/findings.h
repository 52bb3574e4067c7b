/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts: one per node and check, with what was measured, what was expected and what to do. */
#ifndef MEGATRON_FINDINGS_H
#define MEGATRON_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/core/json_write.h"
#include "lib/error.h"

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };
const char *verdict_name(enum verdict verdict);

struct finding {
    char host[64];
    char check[24];
    enum verdict verdict;
    char value[ERROR_TEXT + 64], expected[96], advice[200];
    bool in_doubt; /* the command line may be wrong rather than the node */
};

struct findings {
    struct finding *items;
    size_t count, room;
    size_t *index; /* where an item is, plus 1, by the hash of host and check; 0: nowhere */
    size_t slots;  /* of 'index', a power of two; 0: it must be built again */
};

/* Add a verdict, unless the node already has one at least as severe for this check. */
void findings_add(struct findings *findings, const struct finding *finding);
void findings_clear(struct findings *findings);

/* The command line may be the cause of a verdict: it is not held against the node later. Before
 * findings_sort. */
void findings_doubt(struct findings *findings, const char *host, const char *check);

/* Order by severity, then host, then check. */
void findings_sort(struct findings *findings);

/* The worst verdict of a host (NULL: of all). */
enum verdict findings_worst(const struct findings *findings, const char *host);

/* One block per verdict that is not "ok", in words; with 'all', also those. */
void findings_print(const struct findings *findings, bool all, FILE *out);

/* One record per line, as `megatron report` reads them. */
void findings_write_records(const struct findings *findings, double time, FILE *out);

/* The members of a verdict, for an open JSON object. */
void findings_put(const struct finding *finding, struct json_writer *json);

#endif

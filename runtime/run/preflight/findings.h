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
    bool in_doubt; /* the command line may be wrong rather than the node: not held against it later
                    */
    size_t order;  /* set by findings_add */
};

struct findings {
    struct finding *items;
    size_t count, room;
    size_t added;  /* in all, also those that were dropped */
    bool in_doubt; /* of the verdicts that judge_say adds now */
};

/* Add a verdict. If the node has others for this check, the most severe one counts. */
void findings_add(struct findings *findings, const struct finding *finding);
void findings_clear(struct findings *findings);

/* Keep one verdict per node and check, and order them by severity, then host, then check. */
void findings_sort(struct findings *findings);

/* The worst verdict of a host (NULL: of all). */
enum verdict findings_worst(const struct findings *findings, const char *host);

/* One block per verdict that is not "ok", in words; with 'all', also those. */
void findings_print(const struct findings *findings, bool all, FILE *out);

/* One record per line, as `megatron report` reads them. */
void findings_write_records(const struct findings *findings, double time, FILE *out);

/* The members of a verdict, for an open JSON object. */
void findings_put(const struct finding *finding, struct json_writer *json);

/* A file that remembers which nodes failed and when: JSON lines {"time", "host", "job", "checks"}.
 * A node that fails again and again is faulty even if each fault disappears. */

/* Remember the failed nodes of 'findings', but not for verdicts in doubt, at time 'now' (seconds
 * since 1970), and add a verdict "history" for each that failed before within a week. Lines that
 * are not understood are kept; those older than HISTORY_DAYS are dropped. */
enum { HISTORY_DAYS = 60, HISTORY_WEEK = 7 };
int history_update(const char *path, struct findings *findings, double now, const char *job,
                   struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a phase: each rank shares its counts through a small file, which nothing else depends
 * on, and rank 0 shows the sum.
 *
 * On a terminal, a line on standard error is updated; in a log, there is a line every ten seconds,
 * or, for `megatron preprocess`, Megatron's line every --log-interval documents. --json-progress
 * writes a JSON object per second. */
#ifndef MEGATRON_JOBS_PROGRESS_H
#define MEGATRON_JOBS_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "jobs.h"
#include "work.h"

struct progress {
    const struct jobs_config *config;
    const struct work *work;
    bool terminal;
    bool line_open; /* the cursor is on a progress line */
    FILE *json;
    const char *phase;                              /* its name; NULL: none */
    double begin;                                   /* of the phase */
    int64_t total, before_documents, before_passed; /* done by earlier launches */
    /* What this rank has read in this phase; 'passed' counts towards 'total'. */
    _Atomic int64_t documents, bytes, passed;
    _Atomic int working; /* jobs that this rank is running */
    int64_t logged;      /* documents reported in the last line */
    double shown_at, logged_at, json_at, shared_at;
};

/* Returns 0, or -1 if the file of --json-progress cannot be written. */
int progress_open(struct progress *progress, const struct jobs_config *config,
                  const struct work *work, struct error *err);
void progress_close(struct progress *progress, bool success);

/* Begin a phase. 'total' is its size: bytes of input on disk, or jobs. */
void progress_begin(struct progress *progress, const char *phase, int64_t total,
                    int64_t before_documents, int64_t before_passed);

/* Called several times a second. */
void progress_tick(struct progress *progress);

/* Share this rank's counts now: it has no more jobs. */
void progress_share(const struct progress *progress);

void progress_end_line(struct progress *progress);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The output of filter, dedup and decontaminate: each document of a chunk is kept, kept with
 * another text, or dropped for a reason. Kept documents become the output; dropped ones are counted
 * and, on request, written to another file. */
#ifndef MEGATRON_CURATE_KEPT_H
#define MEGATRON_CURATE_KEPT_H

#include "documents.h"
#include "lines.h"

#define KEPT_PHASE "write"

/* The two output files of one chunk, and its counts. */
struct kept {
    struct lines *out, *dropped;
    struct line_buffer line;
    int64_t documents, text_bytes; /* kept */
};

/* Create the files of the job's chunk. Returns 0 or -1. */
int kept_begin(struct kept *kept, struct job *job, struct error *err);

/* Keep a document. 'text', if not NULL, replaces its text; 'extra', if not NULL, is appended as
 * further members of its JSON object. */
int kept_keep(struct kept *kept, const struct document *document, const char *text, size_t size,
              const char *extra, struct error *err);

/* Drop a document: writes {"dropped":REASON,"document":LINE} with the 'extra' members in
 * between. */
int kept_drop(struct kept *kept, const struct document *document, const char *reason,
              const char *extra, struct error *err);

/* Finish both files and put their sizes and counts into 'result', or abandon them if 'rc' is -1.
 * Returns 'rc', or -1 if that fails. */
int kept_end(struct kept *kept, int rc, struct bytes *result, struct error *err);

/* Reads what kept_end has put. */
struct kept_result {
    int64_t out_size, dropped_size, documents, text_bytes;
};
void kept_take(struct kept_result *kept, struct bytes *bytes);

/* Run the phase KEPT_PHASE, whose results begin with what kept_end has put, concatenate the files
 * of all chunks, and finish. Returns like jobs_phase. */
int kept_run(struct jobs *engine, job_function *job, jobs_finish_function *finish, void *context,
             struct error *err);

/* Add up the results of KEPT_PHASE: what kept_end has put, a tally and 'count' 64-bit counts. */
int kept_sum(struct jobs *engine, struct kept_result *sum, struct tally *tally, int64_t *counts,
             size_t count, struct error *err);

/* Called in jobs_finish: rename the files to their final names. */
int kept_publish(struct jobs *engine, struct error *err);

/* Print how much was kept and how long it took. */
void kept_print(const struct jobs *engine, const struct kept_result *sum,
                const struct tally *tally);

#endif

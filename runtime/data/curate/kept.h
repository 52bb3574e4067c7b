/* SPDX-License-Identifier: Apache-2.0 */
/* What filter, dedup and decontaminate have in common: each chunk's documents are kept, kept with
 * another text, or dropped for a reason; the kept ones become the output, the dropped ones are
 * counted and, if wanted, put into another file. */
#ifndef MEGATRON_CURATE_KEPT_H
#define MEGATRON_CURATE_KEPT_H

#include "documents.h"
#include "lines.h"

#define KEPT_PHASE "write"

/* The two files of one chunk in the making, and what is counted. */
struct kept {
    struct lines *out, *dropped;
    struct line_buffer line;
    int64_t documents, text_bytes; /* kept */
};

/* Begin those of the job's chunk. Returns 0 or -1. */
int kept_begin(struct kept *kept, struct curate_job *job, struct error *err);

/* Keep a document, with 'text' in the place of its own (NULL: as it is) and 'extra', if not NULL,
 * as further members of its object. */
int kept_keep(struct kept *kept, const struct document *document, const char *text, size_t size,
              const char *extra, struct error *err);

/* Drop it: {"dropped":REASON,"document":LINE}, with 'extra' members between them. */
int kept_drop(struct kept *kept, const struct document *document, const char *reason,
              const char *extra, struct error *err);

/* Finish both files and put their sizes and counts into 'result' (or abandon them where 'rc' is
 * -1). Returns 'rc', or -1. */
int kept_end(struct kept *kept, int rc, struct bytes *result, struct error *err);

/* What kept_end has put. */
struct kept_result {
    int64_t out_size, dropped_size, documents, text_bytes;
};
void kept_take(struct kept_result *kept, struct bytes *bytes);

/* After the phase KEPT_PHASE, whose results begin with what kept_end has put: join the parts of all
 * chunks. Returns as curate_phase. */
int kept_join(struct curate *engine, struct error *err);

/* In curate_finish: give the files their names. */
int kept_publish(struct curate *engine, struct error *err);

/* Print the line of what was kept, and that of how long it took. */
void kept_print(const struct curate *engine, const struct kept_result *sum,
                const struct tally *tally);

#endif

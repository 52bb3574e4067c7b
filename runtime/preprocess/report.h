/* What users see while it runs and at the end. */
#ifndef MEGATRON_PREPROCESS_REPORT_H
#define MEGATRON_PREPROCESS_REPORT_H

#include "encode.h"
#include "places.h"

struct report {
    const struct preprocess_config *config;
    struct work *work;
    struct encode *encode;
    const struct plan *plan;
    double begin;
    int64_t before_documents, before_passed; /* by an earlier run that this one goes on with */
    int64_t logged;                          /* documents at the last line */
    double logged_at, shared_at;
    int line_open; /* the last line on the terminal is a progress line */
};

void report_init(struct report *report);

/* Called several times a second: share this rank's counts, and on rank 0 show those of all. */
void report_tick(struct report *report);

/* Share this rank's counts now: when it has no more chunks to do. */
void report_share(struct report *report);

/* End the progress line, if there is one, before other output. */
void report_pause(struct report *report);

/* The closing summary. */
void report_end(struct report *report, const struct places *layout);

#endif

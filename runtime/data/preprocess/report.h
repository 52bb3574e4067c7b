/* SPDX-License-Identifier: Apache-2.0 */
/* What users see: progress and the final summary. */
#ifndef MEGATRON_PREPROCESS_REPORT_H
#define MEGATRON_PREPROCESS_REPORT_H

#include "encode.h"
#include "output_layout.h"

struct report {
    const struct preprocess_config *config;
    struct work *work;
    struct encode *encode;
    const struct input_plan *plan;
    double begin;
    int64_t before_documents, before_passed; /* done by earlier launches */
    int64_t logged;                          /* documents reported in the last line */
    double logged_at, shared_at;
    int line_open; /* the cursor is on a progress line */
};

void report_init(struct report *report);

/* Called several times a second: share this rank's counts; rank 0 shows the sum of all. */
void report_tick(struct report *report);

/* Share this rank's counts now: it has no more chunks. */
void report_share(struct report *report);

/* End the progress line, if there is one, before other output. */
void report_pause(struct report *report);

/* The final summary. */
void report_end(struct report *report, const struct output_layout *layout);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The files of all runs of a report. */
#ifndef MEGATRON_REPORT_INPUT_H
#define MEGATRON_REPORT_INPUT_H

#include "attempt.h"
#include "extras.h"
#include "notes.h"
#include "run.h"

/* More runs than this cannot be told apart in a chart. */
enum { MOST_RUNS = 16 };

/* What one directory, or the files on the command line, contain. */
struct group {
    struct attempts attempts;
    struct extras extras;
    size_t first, count; /* its runs */
};

struct input {
    LIST(struct group) groups;
    struct runs runs;
    struct notes notes;
};

struct input_options {
    const char *const *words; /* directories and files */
    size_t word_count;
    const char *const *names; /* of the runs, in order */
    size_t name_count;
    bool separate;      /* each file is a run of its own */
    double peak;        /* TFLOP/s, or NAN */
    const char *output; /* the report, which must not be one of the files; NULL: none */
};

/* Read everything. Returns 0, or -1 with 'err' set if there is nothing to report on. The caller
 * clears 'input' in both cases. */
int input_read(struct input *input, const struct input_options *options, struct error *err);
void input_clear(struct input *input);

#endif

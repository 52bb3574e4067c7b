/* SPDX-License-Identifier: Apache-2.0 */
/* Read the files of a run: logs of `megatron train` and of Megatron-LM, and JSON lines. Lines are
 * recognized by their content, so the name of a file does not matter. */
#ifndef MEGATRON_READER_H
#define MEGATRON_READER_H

#include <stdbool.h>

#include "attempt.h"
#include "extras.h"
#include "notes.h"

struct reader {
    struct attempts *attempts;
    struct extras *extras;
    struct notes *notes;
    const char *name;       /* of the file */
    struct attempt *logged; /* the attempt that log lines belong to, NULL before the first */
    struct attempt *metric; /* the same for JSON lines */
    const char *line;       /* the log line that is being read */
    bool in_arguments;      /* within the table of arguments */
    bool too_many;          /* more attempts than are kept */
    int64_t torn, foreign;  /* lines that are cut off; records of a newer version */
    int64_t foreign_version;
};

/* Read 'path' and add its attempts, extras and notes; a file that cannot be read is noted. */
void reader_file(const char *path, struct attempts *attempts, struct extras *extras,
                 struct notes *notes);

/* Take one line of a log or one JSON text, without newline; 'whole' says that a newline followed
 * it: a JSON text that was cut is not valid. */
void reader_log_line(struct reader *reader, const char *line, bool whole);
void reader_json_line(struct reader *reader, const char *line, size_t length);

/* The attempt in '*slot'; a new one if there is none or 'fresh' is set. */
struct attempt *reader_attempt(struct reader *reader, struct attempt **slot, bool fresh);

#endif

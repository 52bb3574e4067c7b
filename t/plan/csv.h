/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a CSV file, as spreadsheets and pandas write them: fields may be quoted and have spaces
 * around them; the separator is a comma, or else a semicolon or a tab. A field cannot contain a
 * line break. */
#ifndef MEGATRON_PLAN_CSV_H
#define MEGATRON_PLAN_CSV_H

#include <stddef.h>
#include "lib/error.h"

/* The fields of one line. They point into 'text', which the caller owns. Begin with zeros; a line
 * can be cut again and again, and must be cleared in the end. */
struct csv_line {
    char **fields;
    size_t count, room;
    int open; /* the last field begins with a quote that is not closed */
};

/* The separator of a file with this first line. */
char csv_separator(const char *header);

/* Cut 'text' into fields, in place. Returns 0, or -1 if memory is short or a quote is not closed:
 * the last field then is the rest of the text. */
int csv_cut(struct csv_line *line, char *text, char separator, struct error *err);
void csv_line_clear(struct csv_line *line);

/* The next line of a text, and 'next' after it: NULL after the last one. Lines end with LF, CR LF
 * or CR; a byte order mark is skipped. */
char *csv_next(char **next);

#endif

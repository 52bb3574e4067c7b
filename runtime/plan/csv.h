/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a CSV file, as spreadsheets and pandas write them: fields may be quoted and have spaces
 * around them; the separator is a comma, or else a semicolon or a tab. A field cannot contain a
 * line break. */
#ifndef MEGATRON_PLAN_CSV_H
#define MEGATRON_PLAN_CSV_H

#include "error.h"

enum { CSV_FIELDS = 64 };

/* The fields of one line. They point into 'text', which the caller owns. */
struct csv_line {
    char *fields[CSV_FIELDS];
    int count;
};

/* The separator of a file with this first line. */
char csv_separator(const char *header);

/* Cut 'text' into fields, in place. Returns 0, or -1 if there are too many or a quote is not
 * closed. */
int csv_cut(struct csv_line *line, char *text, char separator, struct error *err);

/* The next line of a text, and 'next' after it: NULL after the last one. Lines end with LF, CR LF
 * or CR; a byte order mark is skipped. */
char *csv_next(char **next);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a file that was read into memory (lib/file.h), without their newlines:
 *
 *     struct file_lines lines = file_lines(&bytes);
 *
 *     while (file_next_line(&lines))
 *         use(lines.line, lines.length, lines.number);
 */
#ifndef MEGATRON_FILE_LINES_H
#define MEGATRON_FILE_LINES_H

#include <stdbool.h>
#include <string.h>
#include "lib/file.h"

struct file_lines {
    const char *at, *end, *line;
    size_t length, number; /* the first line has number 1 */
};

static inline struct file_lines file_lines(const struct file_bytes *bytes)
{
    return (struct file_lines){.at = bytes->data, .end = bytes->data + bytes->length};
}

static inline bool file_next_line(struct file_lines *lines)
{
    const char *newline;

    if (lines->at == lines->end)
        return false;
    newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    lines->line = lines->at;
    lines->length = (size_t)((newline ? newline : lines->end) - lines->at);
    lines->number++;
    lines->at = newline ? newline + 1 : lines->end;
    return true;
}

/* The line does not end in a carriage return, as lines do on Windows. */
static inline void file_line_drop_return(struct file_lines *lines)
{
    if (lines->length > 0 && lines->line[lines->length - 1] == '\r')
        lines->length--;
}

#endif

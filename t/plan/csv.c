/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <stdlib.h>
#include <string.h>

char csv_separator(const char *header)
{
    return strchr(header, ',')    ? ','
           : strchr(header, ';')  ? ';'
           : strchr(header, '\t') ? '\t'
                                  : ',';
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Remove the quotes of a field that begins with one; two in a row stand for one. Returns what
 * follows the closing quote, or NULL if there is none. */
static char *unquote(char *field)
{
    char *to = field, *from = field + 1;

    while (*from && (from[0] != '"' || from[1] == '"')) {
        from += *from == '"';
        *to++ = *from++;
    }
    if (!*from)
        return NULL;
    *to = '\0';
    return from + 1;
}

static void trim_end(char *field, char *end)
{
    while (end > field && is_blank(end[-1]))
        end--;
    *end = '\0';
}

/* The field at 'next' without blanks around it, and 'next' after its separator: NULL after the last
 * one. Returns NULL if a quote is not closed. */
static char *cut_field(char **next, char separator)
{
    const char ends[] = {separator, '\0'};
    char *field = *next, *end;
    int quoted;

    while (is_blank(*field) && *field != separator)
        field++;
    quoted = *field == '"';
    end = quoted ? unquote(field) : field;
    if (!end)
        return NULL;
    end += strcspn(end, ends);
    *next = *end ? end + 1 : NULL;
    if (!quoted)
        trim_end(field, end);
    return field;
}

static int add_field(struct csv_line *line, char *field, struct error *err)
{
    if (line->count == line->room) {
        size_t room = line->room ? 2 * line->room : 64;
        char **more = reallocarray(line->fields, room, sizeof(*more));

        if (!more)
            return error_set(err, "out of memory");
        line->fields = more;
        line->room = room;
    }
    line->fields[line->count++] = field;
    return 0;
}

int csv_cut(struct csv_line *line, char *text, char separator, struct error *err)
{
    line->count = 0;
    line->open = 0;
    while (text) {
        char *begin = text, *field = cut_field(&text, separator);

        line->open = !field;
        if (add_field(line, field ? field : begin, err) < 0)
            return -1;
        if (line->open)
            return error_set_code(err, ERROR_USAGE, "a quoted field is not closed");
    }
    return 0;
}

void csv_line_clear(struct csv_line *line)
{
    free(line->fields);
    *line = (struct csv_line){0};
}

char *csv_next(char **next)
{
    char *line = *next, *end;

    if (!line)
        return NULL;
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    end = line + strcspn(line, "\r\n");
    *next = *end ? end + 1 + (end[0] == '\r' && end[1] == '\n') : NULL;
    *end = '\0';
    return line;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "record_private.h"
#include "mediawiki.h"

#include <stdbool.h>
#include <string.h>

int record_is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r' && line[i] != '\n')
            return 0;
    return 1;
}

/* ` = Title = `: one equals sign on each side; ` = = Section = = ` has more. */
static bool is_title(const char *line, size_t size)
{
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r' || line[size - 1] == ' '))
        size--;
    while (size > 0 && *line == ' ')
        line++, size--;
    return size >= 5 && line[0] == '=' && line[1] == ' ' && line[2] != '=' &&
           line[size - 1] == '=' && line[size - 2] == ' ' && line[size - 3] != '=';
}

size_t record_whole(enum record_mode mode, const char *data, size_t size)
{
    const char *newline = size > 0 ? memrchr(data, '\n', size) : NULL;
    size_t end = newline ? (size_t)(newline - data) + 1 : 0;

    if (mode == RECORD_FILE)
        return 0;
    if (mode == RECORD_PAGE)
        return mediawiki_whole(data, size);
    if (mode == RECORD_JSON || mode == RECORD_LINE || mode == RECORD_EVERY)
        return end;
    /* Walk back over complete lines to the last one that begins a record or separates two. */
    while (end > 0) {
        const char *before = end > 1 ? memrchr(data, '\n', end - 1) : NULL;
        size_t begin = before ? (size_t)(before - data) + 1 : 0;

        if (mode == RECORD_TITLE && begin > 0 && is_title(data + begin, end - begin))
            return begin;
        if (mode == RECORD_BLANK && record_is_blank(data + begin, end - begin))
            return end;
        end = begin;
    }
    return 0;
}

static size_t rest_of_page(const char *data, size_t size, int *through)
{
    const char *close = mediawiki_end(data, data + size);
    const char *next = mediawiki_begin(data, close ? close : data + size);

    *through = close || (next && next + 6 <= data + size);
    if (*through)
        return (size_t)((next ? next : close) - data);
    /* The data may end within a tag. */
    return size > 7 ? size - 7 : 0;
}

size_t record_rest(enum record_mode mode, const char *data, size_t size, int *through)
{
    size_t at = 0;

    *through = 0;
    if (mode == RECORD_FILE)
        return size;
    if (mode == RECORD_PAGE)
        return rest_of_page(data, size, through);
    while (at < size) {
        const char *newline = memchr(data + at, '\n', size - at);
        size_t next;

        /* The data may end within a separator: keep the start of the line, unless it is long. */
        if (!newline)
            return mode == RECORD_BLANK || mode == RECORD_TITLE ? (size - at < 4096 ? at : size)
                                                                : size;
        next = (size_t)(newline - data) + 1;
        *through = mode == RECORD_BLANK   ? record_is_blank(data + at, next - at)
                   : mode == RECORD_TITLE ? is_title(data + at, next - at)
                                          : 1;
        if (*through)
            return mode == RECORD_TITLE ? at : next;
        at = next;
    }
    return at;
}

static int next_line(const struct record_block *block, struct record_cursor *cursor,
                     const char **line, size_t *size)
{
    const char *newline;

    if (cursor->at >= block->size)
        return 0;
    *line = block->data + cursor->at;
    newline = memchr(*line, '\n', block->size - cursor->at);
    *size = newline ? (size_t)(newline - *line) : block->size - cursor->at;
    cursor->at += *size + (newline != NULL);
    cursor->line++;
    return 1;
}

static size_t trim_end(const char *data, size_t size)
{
    while (size > 0 && (data[size - 1] == '\n' || data[size - 1] == '\r'))
        size--;
    return size;
}

/* Lines up to the next separator are one record. */
static int next_text(enum record_mode mode, const struct record_block *block,
                     struct record_cursor *cursor, struct record *record)
{
    const char *line;
    size_t size, end = 0;

    record->data = NULL;
    for (;;) {
        struct record_cursor before = *cursor;

        if (!next_line(block, cursor, &line, &size))
            break;
        if (!record->data && record_is_blank(line, size))
            continue;
        if (record->data && ((mode == RECORD_BLANK && record_is_blank(line, size)) ||
                             (mode == RECORD_TITLE && is_title(line, size)))) {
            if (mode == RECORD_TITLE)
                *cursor = before;
            break;
        }
        if (!record->data) {
            record->data = line;
            record->line = before.line;
        }
        if (!record_is_blank(line, size))
            end = (size_t)(line + size - record->data);
    }
    if (!record->data)
        return 0;
    record->length = end;
    record->size = trim_end(record->data, end);
    return 1;
}

/* A page extends to its end, or to the next page if it has none. */
static int next_page(const struct record_block *block, struct record_cursor *cursor,
                     struct record *record)
{
    const char *end = block->data + block->size, *begin, *close, *next;

    begin = block->size > 0 ? mediawiki_begin(block->data + cursor->at, end) : NULL;
    if (!begin)
        return 0;
    close = mediawiki_end(begin, end);
    next = mediawiki_begin(begin + 1, close ? close : end);
    close = next ? next : close ? close : end;
    record->data = begin;
    record->size = record->length = (size_t)(close - begin);
    record->line = begin - block->data;
    cursor->at = (size_t)(close - block->data);
    return 1;
}

int record_next(enum record_mode mode, const struct record_block *block,
                struct record_cursor *cursor, struct record *record)
{
    if (mode == RECORD_PAGE)
        return next_page(block, cursor, record);
    if (mode == RECORD_FILE) {
        if (cursor->at >= block->size)
            return 0;
        record->data = block->data;
        record->size = record->length = block->size;
        record->line = 0;
        cursor->at = block->size;
        return 1;
    }
    if (mode == RECORD_BLANK || mode == RECORD_TITLE)
        return next_text(mode, block, cursor, record);
    do {
        record->line = cursor->line;
        if (!next_line(block, cursor, &record->data, &record->size))
            return 0;
    } while (mode != RECORD_EVERY && record_is_blank(record->data, record->size));
    record->length = record->size;
    record->size = trim_end(record->data, record->size);
    return 1;
}

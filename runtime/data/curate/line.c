/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void line_put(struct line_buffer *line, const void *data, size_t size)
{
    if (line->size + size > line->capacity) {
        size_t capacity = (line->size + size) * 2 + 256;
        char *grown = realloc(line->data, capacity);

        if (!grown) {
            line->failed = 1;
            return;
        }
        line->data = grown;
        line->capacity = capacity;
    }
    if (size > 0)
        memcpy(line->data + line->size, data, size);
    line->size += size;
}

void line_put_word(struct line_buffer *line, const char *word)
{
    line_put(line, word, strlen(word));
}

void line_put_string(struct line_buffer *line, const char *text, size_t size)
{
    size_t begin = 0;

    line_put(line, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        line_put(line, text + begin, i - begin);
        begin = i + 1;
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof(escape), "\\%c", c);
        else if (c == '\n' || c == '\t' || c == '\r')
            snprintf(escape, sizeof(escape), "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else
            snprintf(escape, sizeof(escape), "\\u%04x", c);
        line_put_word(line, escape);
    }
    line_put(line, text + begin, size - begin);
    line_put(line, "\"", 1);
}

void line_buffer_clear(struct line_buffer *line)
{
    free(line->data);
    memset(line, 0, sizeof(*line));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lines.h"
#include "base/core/json_write.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

void line_put(struct line_buffer *line, const void *data, size_t size)
{
    if (line->size + size > line->capacity) {
        size_t capacity = (line->size + size) * 2 + 256;

        line->data = xrealloc(line->data, capacity, 1);
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
    struct json_writer json = {0};

    json_put_text(&json, NULL, text, size);
    line_put(line, json.data, json.size);
    json_writer_clear(&json);
}

void line_buffer_clear(struct line_buffer *line)
{
    free(line->data);
    memset(line, 0, sizeof(*line));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "json_write.h"
#include "xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void put(struct json_writer *json, const char *data, size_t size)
{
    if (json->stream) {
        fwrite(data, 1, size, json->stream);
        return;
    }
    if (json->room - json->size < size) {
        size_t room = (json->size + size) * 2 + 256;
        json->data = xrealloc(json->data, room, 1);
        json->room = room;
    }
    if (size > 0)
        memcpy(json->data + json->size, data, size);
    json->size += size;
}

static void put_word(struct json_writer *json, const char *word)
{
    put(json, word, strlen(word));
}

/* Length in bytes of the UTF-8 character at 'text', which is not ASCII; 0 if it is invalid. */
static size_t character(const unsigned char *text, size_t left)
{
    size_t size = text[0] >= 0xC2 && text[0] < 0xE0   ? 2
                  : (text[0] & 0xF0) == 0xE0          ? 3
                  : text[0] >= 0xF0 && text[0] < 0xF5 ? 4
                                                      : 0;

    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] >= 0xA0) ||
        (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] >= 0x90))
        return 0;
    return size;
}

/* Copy runs of characters that need no escape: whole documents pass through here. */
static void put_quoted(struct json_writer *json, const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t begin = 0, at = 0;

    put(json, "\"", 1);
    while (at < size) {
        unsigned char c = bytes[at];
        char escape[8] = "\xEF\xBF\xBD";

        if (c >= 0x80) {
            size_t length = character(bytes + at, size - at);

            at += length;
            if (length > 0)
                continue;
        } else if (c >= 0x20 && c != '"' && c != '\\') {
            at++;
            continue;
        } else if (c == '"' || c == '\\') {
            snprintf(escape, sizeof(escape), "\\%c", c);
        } else if (c == '\n' || c == '\t' || c == '\r') {
            snprintf(escape, sizeof(escape), "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        } else {
            snprintf(escape, sizeof(escape), "\\u%04x", c);
        }
        put(json, text + begin, at - begin);
        put_word(json, escape);
        begin = ++at;
    }
    put(json, text + begin, size - begin);
    put(json, "\"", 1);
}

/* Begin a new line, indented for the members of 'depth' levels of lines. */
static void break_line(struct json_writer *json, int depth)
{
    put(json, "\n", 1);
    for (int i = 0; i < depth; i++)
        if (json->open[i].lines)
            put(json, "  ", 2);
}

static bool in_lines(const struct json_writer *json)
{
    return json->depth > 0 && json->open[json->depth - 1].lines;
}

/* What comes before a value: comma, line and name. */
static void begin_value(struct json_writer *json, const char *name)
{
    if (name)
        json_put_name(json, name, strlen(name));
    if (!json->named && json->depth > 0) {
        bool comma = json->open[json->depth - 1].begun;

        put_word(json, !comma ? "" : json->spaced && !in_lines(json) ? ", " : ",");
        if (in_lines(json))
            break_line(json, json->depth);
        json->open[json->depth - 1].begun = true;
    }
    json->named = false;
}

void json_put_name(struct json_writer *json, const char *name, size_t size)
{
    begin_value(json, NULL);
    put_quoted(json, name, size);
    put_word(json, json->spaced || in_lines(json) ? ": " : ":");
    json->named = true;
}

void json_open(struct json_writer *json, const char *name, char bracket)
{
    if (json->depth == JSON_WRITE_DEPTH)
        abort();
    begin_value(json, name);
    put(json, &bracket, 1);
    json->open[json->depth].end = bracket == '{' ? '}' : ']';
    json->open[json->depth].lines = false;
    json->open[json->depth].begun = false;
    json->depth++;
}

void json_open_lines(struct json_writer *json, const char *name, char bracket)
{
    json_open(json, name, bracket);
    json->open[json->depth - 1].lines = true;
}

void json_close(struct json_writer *json)
{
    if (json->depth == 0)
        abort();
    json->depth--;
    if (json->open[json->depth].lines && json->open[json->depth].begun)
        break_line(json, json->depth);
    put(json, &json->open[json->depth].end, 1);
}

void json_put_text(struct json_writer *json, const char *name, const char *text, size_t size)
{
    begin_value(json, name);
    put_quoted(json, text, size);
}

void json_put_string(struct json_writer *json, const char *name, const char *text)
{
    if (text)
        json_put_text(json, name, text, strlen(text));
    else
        json_put_json(json, name, "null", 4);
}

void json_put_format(struct json_writer *json, const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    json_put_string(json, name, text);
}

void json_put_json(struct json_writer *json, const char *name, const char *text, size_t size)
{
    begin_value(json, name);
    put(json, text, size);
}

void json_put_integer(struct json_writer *json, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, value);
    json_put_json(json, name, text, strlen(text));
}

static void put_real(struct json_writer *json, const char *name, const char *format, int precision,
                     double value)
{
    char text[400]; /* the largest double has 309 digits before the point */

    strcpy(text, "null");
    if (isfinite(value))
        snprintf(text, sizeof(text), format, precision, value);
    json_put_json(json, name, text, strlen(text));
}

void json_put_number(struct json_writer *json, const char *name, double value, int digits)
{
    put_real(json, name, "%.*g", digits, value);
}

void json_put_fixed(struct json_writer *json, const char *name, double value, int decimals)
{
    put_real(json, name, "%.*f", decimals, value);
}

void json_put_bool(struct json_writer *json, const char *name, bool value)
{
    json_put_json(json, name, value ? "true" : "false", value ? 4 : 5);
}

void json_end_line(struct json_writer *json)
{
    put(json, "\n", 1);
}

void json_writer_clear(struct json_writer *json)
{
    free(json->data);
    *json = (struct json_writer){.stream = json->stream, .spaced = json->spaced};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_clear(struct text *text)
{
    free(text->data);
    memset(text, 0, sizeof(*text));
}

static int reserve(struct text *text, size_t more)
{
    size_t wanted = text->length + more + 1, capacity = text->capacity ? text->capacity : 4096;
    char *data;

    if (text->failed)
        return -1;
    if (wanted <= text->capacity)
        return 0;
    while (capacity < wanted)
        capacity *= 2;
    data = realloc(text->data, capacity);
    if (!data) {
        text->failed = 1;
        return -1;
    }
    text->data = data;
    text->capacity = capacity;
    return 0;
}

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
    if (reserve(text, count) < 0)
        return;
    if (count > 0)
        memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *words)
{
    text_add_bytes(text, words, strlen(words));
}

void text_printf(struct text *text, const char *format, ...)
{
    va_list args, again;
    int length;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve(text, (size_t)length) == 0) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

/* Length of the UTF-8 character at 's', 0 if the bytes are not one (or a C1 control, a surrogate or
 * a character that HTML does not allow). */
static size_t character(const unsigned char *s)
{
    size_t count = s[0] < 0x80                   ? 1
                   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                   : (s[0] & 0xf0) == 0xe0       ? 3
                   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                 : 0;

    for (size_t i = 1; i < count; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if (count == 1 && ((s[0] < 0x20 && s[0] != '\t' && s[0] != '\n') || s[0] == 0x7f))
        return 0;
    if (count == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        return 0;
    if (count == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
                       (s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe)))
        return 0;
    return count == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) ? 0
                                                                                           : count;
}

void text_escape(struct text *text, const char *words)
{
    const unsigned char *s = (const unsigned char *)words;

    while (*s) {
        size_t count = character(s);

        if (count == 0)
            text_add(text, "\xef\xbf\xbd");
        else if (*s == '<')
            text_add(text, "&lt;");
        else if (*s == '>')
            text_add(text, "&gt;");
        else if (*s == '&')
            text_add(text, "&amp;");
        else if (*s == '"')
            text_add(text, "&quot;");
        else if (*s == '\'')
            text_add(text, "&#39;");
        else
            text_add_bytes(text, (const char *)s, count);
        s += count ? count : 1;
    }
}

void text_number(struct text *text, double value, int digits)
{
    if (!isfinite(value))
        text_add(text, "null");
    else
        text_printf(text, "%.*g", digits, value == 0 ? 0.0 : value);
}

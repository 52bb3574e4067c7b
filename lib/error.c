/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void mark_cut(struct error *err, int length)
{
    if (length >= (int)sizeof(err->text))
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
}

static int set_text(struct error *err, const char *format, va_list args)
{
    int length = vsnprintf(err->text, sizeof(err->text), format, args);

    mark_cut(err, length);
    err->code = ERROR_FAILURE;
    return -1;
}

int error_set_code(struct error *err, enum error_code code, const char *format, ...)
{
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
    err->code = code;
    return -1;
}

int error_set(struct error *err, const char *format, ...)
{
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    set_text(err, format, args);
    va_end(args);
    return -1;
}

int error_set_errno(struct error *err, int number, const char *format, ...)
{
    struct error sentence;
    va_list args;

    if (!err)
        return -1;
    va_start(args, format);
    set_text(&sentence, format, args);
    va_end(args);
    return error_set(err, "%s: %s", sentence.text, strerror(number));
}

int error_prefix(struct error *err, const char *format, ...)
{
    struct error before, after;
    va_list args;

    if (!err)
        return -1;
    after = *err;
    va_start(args, format);
    set_text(&before, format, args);
    va_end(args);
    return error_set_code(err, after.code, "%s: %s", before.text, after.text);
}

int error_append(struct error *err, const char *format, ...)
{
    struct error before, after;
    va_list args;

    if (!err)
        return -1;
    before = *err;
    va_start(args, format);
    set_text(&after, format, args);
    va_end(args);
    return error_set_code(err, before.code, "%s%s", before.text, after.text);
}

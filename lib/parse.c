/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int parse_int64(const char *what, const char *text, int64_t min, int64_t max, int64_t *value,
                struct error *err)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]))
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.100s is not a whole number; write digits only, as in 16", what,
                              text);
    if (errno == ERANGE || number < min || number > max)
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.100s is out of range; use %" PRId64 " to %" PRId64, what, text,
                              min, max);
    *value = number;
    return 0;
}

int parse_double(const char *what, const char *text, double *value, struct error *err)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(number))
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.100s is not a number; write it like 0.1 or 1e-4", what, text);
    *value = number;
    return 0;
}

int parse_size(const char *what, const char *text, int kilo, int64_t min, int64_t max,
               int64_t *value, struct error *err)
{
    static const char units[] = "kmgtp";
    size_t length = strspn(text, "0123456789.");
    const char *rest = text + length;
    const char *unit = *rest ? strchr(units, tolower((unsigned char)*rest)) : NULL;
    char *end;
    long double number = strtold(text, &end); /* holds every int64_t */

    rest += unit != NULL;
    if (unit && strcasecmp(rest, "iB") == 0)
        kilo = 1024;
    else if (strcasecmp(rest, "B") == 0)
        kilo = 1000;
    else if (*rest)
        length = 0;
    if (length == 0 || end != text + length)
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.50s is not a size such as 500G, 1.5GB or 64MiB", what, text);
    for (ptrdiff_t i = 0; unit && i <= unit - units; i++)
        number *= kilo;
    if (number >= 0x1p63L || (int64_t)number < min || (int64_t)number > max)
        return error_set_code(err, ERROR_USAGE,
                              "%s=%.50s is out of range; use %" PRId64 " to %" PRId64, what, text,
                              min, max);
    *value = (int64_t)number;
    return 0;
}

void list_text_add(char *list, size_t size, const char *separator, const char *format, ...)
{
    size_t used = strlen(list), gap = used ? strlen(separator) : 0, room;
    va_list args;
    int length;

    if (used + gap >= size)
        return;
    room = size - used - gap;
    va_start(args, format);
    length = vsnprintf(list + used + gap, room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room)
        list[used] = '\0';
    else
        memcpy(list + used, separator, gap);
}

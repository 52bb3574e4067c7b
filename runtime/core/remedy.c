/* SPDX-License-Identifier: Apache-2.0 */
#include "remedy.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const *words;

void remedy_set_table(const char *const *table)
{
    words = table;
}

const char *remedy_words(enum remedy remedy)
{
    return words ? words[remedy] : "see the manual";
}

int error_remedy(struct error *err, enum remedy remedy)
{
    return error_append(err, "; %s", remedy_words(remedy));
}

int error_set_remedy(struct error *err, enum remedy remedy, const char *format, ...)
{
    char what[sizeof(err->text)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    error_set(err, "%s", what);
    return error_remedy(err, remedy);
}

int error_memory(struct error *err, const char *format, ...)
{
    char what[sizeof(err->text)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    error_set(err, "out of memory for %s", what);
    return error_remedy(err, REMEDY_MEMORY);
}

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

/* 'before', then the formatted text and the remedy. */
__attribute__((format(printf, 4, 0))) static int set_text(struct error *err, enum remedy remedy,
                                                          const char *before, const char *format,
                                                          va_list arguments)
{
    char what[sizeof(err->text)];

    vsnprintf(what, sizeof(what), format, arguments);
    error_set(err, "%s%s", before, what);
    return error_remedy(err, remedy);
}

int error_set_remedy(struct error *err, enum remedy remedy, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set_text(err, remedy, "", format, arguments);
    va_end(arguments);
    return -1;
}

int error_memory(struct error *err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set_text(err, REMEDY_MEMORY, "out of memory for ", format, arguments);
    va_end(arguments);
    return -1;
}

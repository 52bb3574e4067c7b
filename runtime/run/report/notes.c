/* SPDX-License-Identifier: Apache-2.0 */
#include "notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void notes_add(struct notes *notes, const char *format, ...)
{
    char text[1024], *copy;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (notes->count == sizeof(notes->items) / sizeof(notes->items[0]))
        return;
    copy = strdup(text);
    if (copy)
        notes->items[notes->count++] = copy;
}

void notes_clear(struct notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->items[i]);
    notes->count = 0;
}

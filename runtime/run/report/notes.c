/* SPDX-License-Identifier: Apache-2.0 */
#include "notes.h"
#include "base/core/xmalloc.h"

#include <stdarg.h>
#include <stdlib.h>

void notes_add(struct notes *notes, const char *format, ...)
{
    va_list args;

    if (notes->count == sizeof(notes->items) / sizeof(notes->items[0]))
        return;
    va_start(args, format);
    notes->items[notes->count++] = xvasprintf(format, args);
    va_end(args);
}

void notes_clear(struct notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->items[i]);
    notes->count = 0;
}

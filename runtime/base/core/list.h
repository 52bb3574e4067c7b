/* SPDX-License-Identifier: Apache-2.0 */
/* A growable array of any type:
 *
 *     LIST(struct run) runs = {0};
 *
 *     *list_add(&runs) = (struct run){.name = name};
 *     for (size_t i = 0; i < runs.count; i++)
 *         print(&runs.items[i]);
 *     list_free(&runs);
 *
 * A struct that starts with the same members ('items', 'count', 'room') works as well, and can be
 * named in headers. Pointers into 'items' are valid until the next element is added. */
#ifndef MEGATRON_LIST_H
#define MEGATRON_LIST_H

#include <stdlib.h>

#include "xmalloc.h"

#define LIST(type)          \
    struct {                \
        type *items;        \
        size_t count, room; \
    }

/* Make room for 'more' further elements. */
#define list_reserve(list, more) \
    ((list)->items =             \
         list_grow((list)->items, (list)->count, (more), &(list)->room, sizeof(*(list)->items)))

/* Append an element, whose value is undefined; evaluates to its address. */
#define list_add(list) (list_reserve(list, 1), &(list)->items[(list)->count++])

/* Append 'number' elements from an array. */
#define list_append(list, array, number)                             \
    do {                                                             \
        list_reserve(list, number);                                  \
        for (size_t list_i = 0; list_i < (size_t)(number); list_i++) \
            (list)->items[(list)->count++] = (array)[list_i];        \
    } while (0)

/* Release the elements; the list is empty and can be used again. What elements own is the caller's.
 */
#define list_free(list)                   \
    do {                                  \
        free((list)->items);              \
        (list)->items = NULL;             \
        (list)->count = (list)->room = 0; \
    } while (0)

/* For the macros above: grows by half, so that adding is amortized constant. */
static inline void *list_grow(void *items, size_t count, size_t more, size_t *room, size_t size)
{
    size_t need;

    if (__builtin_add_overflow(count, more, &need))
        need = (size_t)-1; /* which xrealloc refuses */
    if (need <= *room)
        return items;
    if (need < *room + *room / 2)
        need = *room + *room / 2;
    if (need < 16)
        need = 16;
    *room = need;
    return xrealloc(items, need, size);
}

#endif

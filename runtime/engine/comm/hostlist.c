/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of the item at 'at': the comma outside of brackets that follows it, or the end. */
static const char *item_end(const char *at)
{
    int depth = 0;

    for (; *at && (*at != ',' || depth > 0); at++)
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
    return at;
}

/* Host 'index' of one item "prefix[ranges]suffix". Returns 0 with 'name' set; the number of hosts
 * of the item if it has no such host; -1 if it is malformed. */
static int64_t from_item(const char *at, const char *end, int64_t index, char *name, size_t size)
{
    const char *open = memchr(at, '[', (size_t)(end - at));
    const char *close = open ? memchr(open, ']', (size_t)(end - open)) : NULL;
    int64_t count = 0;

    if (!open) {
        if (index > 0)
            return 1;
        snprintf(name, size, "%.*s", (int)(end - at), at);
        return 0;
    }
    if (!close)
        return -1;
    for (const char *range = open + 1; range < close;) {
        char *after;
        long first = strtol(range, &after, 10), last = first;
        int width = (int)(after - range);

        if (after == range || first < 0)
            return -1;
        if (*after == '-')
            last = strtol(after + 1, &after, 10);
        if (last < first || last > INT32_MAX || (*after != ',' && *after != ']'))
            return -1;
        if (index < count + last - first + 1) {
            snprintf(name, size, "%.*s%0*ld%.*s", (int)(open - at), at, width,
                     first + (long)(index - count), (int)(end - close - 1), close + 1);
            return 0;
        }
        count += last - first + 1;
        range = after + 1;
    }
    return count > 0 ? count : -1;
}

int hostlist_at(const char *list, int64_t index, char *name, size_t size)
{
    name[0] = '\0';
    while (list && *list) {
        const char *end = item_end(list);
        int64_t passed = from_item(list, end, index, name, size);

        if (passed <= 0)
            return (int)passed;
        index -= passed;
        list = *end ? end + 1 : end;
    }
    return -1;
}

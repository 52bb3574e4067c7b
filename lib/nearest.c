/* SPDX-License-Identifier: Apache-2.0 */
#include "nearest.h"
#include "parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 63, SHOWN = 3 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t nearest_distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    size_t length_a = smaller(strlen(a), LONGEST), length_b = smaller(strlen(b), LONGEST);

    for (size_t j = 0; j <= length_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= length_a; i++) {
        now[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            int ca = tolower((unsigned char)a[i - 1]), cb = tolower((unsigned char)b[j - 1]);
            size_t best = smaller(last[j], now[j - 1]) + 1;

            best = smaller(best, last[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
                cb == tolower((unsigned char)a[i - 2]))
                best = smaller(best, before[j - 2] + 1);
            now[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[length_b];
}

size_t nearest_names(const char *name, const char *const *names, size_t count, char *buffer,
                     size_t size)
{
    size_t picked[SHOWN], distance[SHOWN], found = 0;
    size_t limit = strlen(name) / 3 + 1;

    for (size_t i = 0; i < count; i++) {
        size_t d = nearest_distance(name, names[i]);
        size_t at = found;

        /* A name that starts with the given text is near, however long the rest is. */
        if (d > limit && strlen(name) >= 3 && strncmp(names[i], name, strlen(name)) == 0)
            d = limit;
        if (d > limit)
            continue;
        while (at > 0 && distance[at - 1] > d)
            at--;
        if (at == SHOWN)
            continue;
        if (found < SHOWN)
            found++;
        for (size_t k = found - 1; k > at; k--) {
            picked[k] = picked[k - 1];
            distance[k] = distance[k - 1];
        }
        picked[at] = i;
        distance[at] = d;
    }
    if (size > 0)
        buffer[0] = '\0';
    for (size_t k = 0; k < found; k++)
        list_text_add(buffer, size, k + 1 == found ? " or " : ", ", "%s", names[picked[k]]);
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Divide a row of items into fair parts. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* Parts have 'base' or 'base + 1' items. width[p * (extra + 1) + e]: the largest possible sum of
 * the gaps at the cuts of the first p parts, of which e are long. */
struct row {
    size_t items, parts, base, extra;
    const int *gaps;
    long *width;
    unsigned char *is_long; /* was the last of these parts a long one? */
};

static void fill_row(struct row *row)
{
    size_t columns = row->extra + 1;

    for (size_t p = 0; p <= row->parts; p++) {
        for (size_t e = 0; e <= row->extra; e++) {
            long *best = &row->width[p * columns + e];
            size_t end = p * row->base + e;

            *best = p == 0 && e == 0 ? 0 : -1;
            if (p == 0 || e > p)
                continue;
            /* Prefer long parts first if it makes no difference. */
            if (row->width[(p - 1) * columns + e] >= 0)
                *best = row->width[(p - 1) * columns + e];
            if (e > 0 && row->width[(p - 1) * columns + e - 1] > *best) {
                *best = row->width[(p - 1) * columns + e - 1];
                row->is_long[p * columns + e] = 1;
            }
            if (*best >= 0 && p < row->parts && end < row->items)
                *best += row->gaps[end];
        }
    }
}

int divide_row(size_t items, size_t parts, const int *gaps, size_t *cuts, struct error *err)
{
    struct row row = {.items = items,
                      .parts = parts,
                      .base = items / parts,
                      .extra = items % parts,
                      .gaps = gaps};
    size_t cells = (parts + 1) * (row.extra + 1), extra = row.extra;

    row.width = calloc(cells, sizeof(*row.width));
    row.is_long = calloc(cells, 1);
    if (!row.width || !row.is_long) {
        free(row.width);
        free(row.is_long);
        return error_set(err, "out of memory");
    }
    fill_row(&row);
    cuts[parts] = items;
    for (size_t p = parts; p > 0; p--) {
        size_t length = row.base;

        if (row.is_long[p * (row.extra + 1) + extra]) {
            length++;
            extra--;
        }
        cuts[p - 1] = cuts[p] - length;
    }
    free(row.width);
    free(row.is_long);
    return 0;
}

void divide_weighted(size_t items, size_t parts, const size_t *weights, size_t *cuts)
{
    size_t total = 0, left = items;

    for (size_t i = 0; i < parts; i++)
        total += weights[i];
    cuts[0] = 0;
    for (size_t i = 0; i < parts; i++) {
        size_t rest = parts - i - 1;
        size_t length = rest == 0 ? left : (left * weights[i] + total / 2) / (total ? total : 1);

        if (length < 1)
            length = 1;
        if (length > left - rest)
            length = left - rest;
        cuts[i + 1] = cuts[i] + length;
        left -= length;
        total -= weights[i];
    }
}

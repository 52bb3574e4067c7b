/* SPDX-License-Identifier: Apache-2.0 */
#include "pieces.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void pieces_create(struct pieces *pieces, const struct parameters *parameters,
                   const struct layout_position *at, int64_t shard, enum pieces_of of)
{
    memset(pieces, 0, sizeof(*pieces));
    pieces->list = xcalloc((size_t)parameters->count + 1, sizeof(*pieces->list));
    for (int i = 0; i < parameters->count; i++) {
        const struct parameter *p = &parameters->list[i];
        const struct bucket *b = &parameters->buckets[parameters->tensors[p->tensor].bucket];
        struct range mine = bucket_shard(b, shard);
        int64_t rows = most(0, least(p->rows, p->true_rows - p->first_row));
        struct range held = range_intersect((struct range){p->offset, rows * p->cols}, mine);

        if (held.count == 0 || (of == PIECES_WRITTEN && !class_is_owned(p->class, at)))
            continue;
        pieces->list[pieces->count++] = (struct piece){i, held.first - p->offset, held.count,
                                                       b->shard_first + held.first - mine.first};
        pieces->elements += held.count;
    }
}

void pieces_destroy(struct pieces *pieces)
{
    free(pieces->list);
    memset(pieces, 0, sizeof(*pieces));
}

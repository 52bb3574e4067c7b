/* SPDX-License-Identifier: Apache-2.0 */
#include "ranges.h"

struct range range_part(int64_t total, int64_t parts, int64_t i)
{
    int64_t size = total / parts;

    return (struct range){i * size, size};
}

struct range range_intersect(struct range a, struct range b)
{
    int64_t first = a.first > b.first ? a.first : b.first;
    int64_t end = a.first + a.count < b.first + b.count ? a.first + a.count : b.first + b.count;

    return (struct range){first, end > first ? end - first : 0};
}

struct range range_tensor(const struct layout *layout, const struct layout_position *at,
                          int64_t total)
{
    return range_part(total, layout->tp, at->tp);
}

struct range range_vocabulary(const struct layout *layout, const struct layout_position *at,
                              int64_t padded, int64_t vocabulary)
{
    struct range part = range_tensor(layout, at, padded);

    return (struct range){part.first, range_intersect(part, (struct range){0, vocabulary}).count};
}

struct zigzag zigzag_split(int64_t sequence, int64_t cp)
{
    int64_t slices = cp > 1 ? 2 : 1;

    return (struct zigzag){cp, slices, sequence / (slices * cp)};
}

struct range zigzag_slice(const struct zigzag *split, int64_t rank, int64_t i)
{
    int64_t number = i == 0 ? rank : 2 * split->cp - 1 - rank;

    return (struct range){number * split->rows, split->rows};
}

int64_t zigzag_position(const struct zigzag *split, int64_t rank, int64_t row)
{
    return zigzag_slice(split, rank, row / split->rows).first + row % split->rows;
}

int64_t shard_count(const struct layout *layout)
{
    return layout->dp * layout->cp;
}

int64_t shard_number(const struct layout *layout, const struct layout_position *at)
{
    return at->dp * layout->cp + at->cp;
}

struct range shard_range(struct range bucket, int64_t shards, int64_t shard)
{
    struct range part = range_part(bucket.count, shards, shard);

    return (struct range){bucket.first + part.first, part.count};
}

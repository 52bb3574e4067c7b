/* SPDX-License-Identifier: Apache-2.0 */
#include "reshard.h"
#include "base/core/xmalloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One of our pieces, found by its tensor. */
struct want {
    const struct parameter *parameter;
    const struct piece *piece;
    int next; /* the next of the same tensor; -1: none */
    atomic_int_fast64_t got;
};

struct reshard {
    const char *directory;
    const struct checkpoint_index *index;
    struct want *wants;
    int *first; /* per tensor */
    float *const *arrays;
    int array_count;
    const struct index_file *file; /* the file being read */
};

/* Elements that are contiguous both in the file, from index 'at' on over all its arrays, and at
 * their destination. */
struct span {
    struct want *want;
    int64_t at, count;
    float *to;
};

/* Returns nonzero to stop. */
typedef int visit_function(void *context, const struct span *span);

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The intersection of a saved piece's block with a parameter: rows and columns. */
struct common {
    int64_t row, rows, col, cols;
};

static struct common common_of(const struct index_piece *s, const struct parameter *p)
{
    struct common c = {most(s->first_row, p->first_row), 0, most(s->first_col, p->first_col), 0};

    c.rows = least(s->first_row + s->rows, p->first_row + p->rows) - c.row;
    c.cols = least(s->first_col + s->cols, p->first_col + p->cols) - c.col;
    return c;
}

/* A slice of one array: elements first .. end - 1 of the block of piece 's'. */
struct slice {
    int array;
    const struct index_piece *s;
    int64_t first, end;
};

/* Given 'count' elements that are contiguous both in the saved block, from 'from' on, and in the
 * parameter, from 'to' on: visit those that are in the slice and that our piece needs. */
static int visit_span(struct reshard *r, const struct slice *slice, struct want *w, int64_t from,
                      int64_t to, int64_t count, visit_function *visit, void *context)
{
    const struct index_piece *s = slice->s;
    int64_t skip = most(0, most(slice->first - from, w->piece->start - to));
    int64_t end = least(count, least(slice->end - from, w->piece->start + w->piece->count - to));
    struct span span = {.want = w, .count = end - skip};

    if (skip >= end)
        return 0;
    span.at = slice->array * r->file->elements + s->offset + from + skip - s->start;
    span.to = r->arrays[slice->array] + w->piece->shard + to + skip - w->piece->start;
    return visit(context, &span);
}

static int visit_want(struct reshard *r, const struct slice *slice, struct want *w,
                      visit_function *visit, void *context)
{
    const struct parameter *p = w->parameter;
    const struct index_piece *s = slice->s;
    struct common c = common_of(s, p);
    int64_t from, to, row;
    int rc = 0;

    if (c.rows <= 0 || c.cols <= 0)
        return 0;
    from = (c.row - s->first_row) * s->cols + c.col - s->first_col;
    to = (c.row - p->first_row) * p->cols + c.col - p->first_col;
    if (s->cols == c.cols && p->cols == c.cols)
        return visit_span(r, slice, w, from, to, c.rows * c.cols, visit, context);
    /* Rows before the first one end before the slice. */
    row = most(0, (slice->first - from - c.cols) / s->cols);
    for (; row < c.rows && from + row * s->cols < slice->end && rc == 0; row++)
        rc = visit_span(r, slice, w, from + row * s->cols, to + row * p->cols, c.cols, visit,
                        context);
    return rc;
}

/* The piece of the file that contains element 'at' of each array. */
static int find_piece(const struct reshard *r, int64_t at)
{
    int low = 0, high = r->file->pieces - 1;

    while (low < high) {
        int middle = low + (high - low + 1) / 2;

        if (r->index->pieces[r->file->first + middle].offset <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Call 'visit' for everything that is needed of 'count' elements of the file from 'first' on. */
static void visit_range(struct reshard *r, int64_t first, int64_t count, visit_function *visit,
                        void *context)
{
    const struct index_file *file = r->file;
    int rc = 0;

    for (int array = (int)(first / file->elements); array < r->array_count && rc == 0; array++) {
        int64_t begin = most(0, first - array * file->elements);
        int64_t end = least(file->elements, first + count - array * file->elements);

        for (int i = find_piece(r, begin); i < file->pieces && begin < end && rc == 0; i++) {
            const struct index_piece *s = &r->index->pieces[file->first + i];
            struct slice slice = {.array = array, .s = s};

            if (s->offset >= end)
                break;
            slice.first = s->start + most(0, begin - s->offset);
            slice.end = s->start + least(s->count, end - s->offset);
            for (int w = r->first[s->tensor]; w >= 0 && rc == 0; w = r->wants[w].next)
                rc = visit_want(r, &slice, &r->wants[w], visit, context);
        }
    }
}

/* --- Blocks to read -------------------------------------------------------------------------- */

struct found {
    struct span span;
    int count;
};

/* One span shows that the block is needed, two that it has several destinations. */
static int find_two(void *context, const struct span *span)
{
    struct found *found = context;

    found->span = *span;
    return ++found->count == 2;
}

static int wants(void *context, int64_t first, int64_t count, float **to)
{
    struct found found = {.count = 0};

    visit_range(context, first, count, find_two, &found);
    if (found.count == 1 && found.span.at == first && found.span.count == count) {
        *to = found.span.to;
        atomic_fetch_add(&found.span.want->got, count);
    }
    return found.count > 0;
}

struct block {
    int64_t first;
    const float *elements;
};

static int copy(void *context, const struct span *span)
{
    const struct block *block = context;

    memcpy(span->to, block->elements + span->at - block->first,
           (size_t)span->count * sizeof(float));
    atomic_fetch_add(&span->want->got, span->count);
    return 0;
}

static void take(void *context, int64_t first, int64_t count, const float *elements)
{
    struct block block = {first, elements};

    visit_range(context, first, count, copy, &block);
}

/* Does a file contain data that this rank needs? */
static int is_needed(const struct reshard *r, const struct index_file *file)
{
    for (int i = 0; i < file->pieces; i++) {
        const struct index_piece *s = &r->index->pieces[file->first + i];

        for (int w = r->first[s->tensor]; w >= 0; w = r->wants[w].next) {
            struct common c = common_of(s, r->wants[w].parameter);

            if (c.rows > 0 && c.cols > 0)
                return 1;
        }
    }
    return 0;
}

static int read_file(struct reshard *r, const struct index_file *file, struct error *err)
{
    struct shard_sink sink = {wants, take, r};
    struct shard_reader *reader;
    int rc;

    if (!is_needed(r, file))
        return 0;
    r->file = file;
    rc = shard_reader_open(&reader, r->directory, file, r->index->arrays, err);
    if (rc == 0)
        rc = shard_reader_read(reader, &sink, err);
    shard_reader_close(reader);
    return rc;
}

static int prepare(struct reshard *r, const struct parameters *parameters,
                   const struct pieces *pieces, struct error *err)
{
    const struct checkpoint_index *index = r->index;

    r->wants = xcalloc((size_t)pieces->count + 1, sizeof(*r->wants));
    r->first = xcalloc((size_t)index->tensor_count + 1, sizeof(*r->first));
    for (int i = 0; i < index->tensor_count; i++)
        r->first[i] = -1;
    for (int i = 0; i < pieces->count; i++) {
        const struct parameter *p = &parameters->list[pieces->list[i].parameter];
        int tensor = index_find(index, p->name);

        if (tensor < 0) {
            error_set(err, "tensor %s is missing; copy the checkpoint again", p->name);
            return index_damaged(err);
        }
        r->wants[i].parameter = p;
        r->wants[i].piece = &pieces->list[i];
        r->wants[i].next = r->first[tensor];
        r->first[tensor] = i;
    }
    return 0;
}

int reshard_read(const char *directory, const struct checkpoint_index *index,
                 const struct parameters *parameters, const struct pieces *pieces,
                 float *const *arrays, int array_count, struct error *err)
{
    struct reshard r = {directory, index, NULL, NULL, arrays, array_count, NULL};
    int rc = array_count <= index->arrays
                 ? prepare(&r, parameters, pieces, err)
                 : error_set(err, "this checkpoint was saved without optimizer state");
    if (array_count > index->arrays)
        error_append(err, "; use --no-load-optim or --finetune");

    for (int i = 0; i < index->file_count && rc == 0; i++)
        rc = read_file(&r, &index->files[i], err);
    for (int i = 0; i < pieces->count && rc == 0; i++)
        if (r.wants[i].got != array_count * pieces->list[i].count) {
            error_set(
                err,
                "a part of tensor %s is in none of its files; restore the missing file, or remove "
                "this checkpoint",
                r.wants[i].parameter->name);
            rc = index_damaged(err);
        }
    free(r.wants);
    free(r.first);
    return rc;
}

#include "reshard.h"

#include <stdlib.h>

/* One of our pieces, found by its tensor. */
struct want {
    const struct parameter *parameter;
    const struct piece *piece;
    int next; /* the next of the same tensor; -1: none */
    int64_t got;
};

struct reshard {
    const char *directory;
    const struct checkpoint_index *index;
    struct want *wants;
    int *first; /* per tensor */
    float *const *arrays;
    int array_count;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The rows and columns that a saved piece's block and a parameter have in common. */
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

/* Take 'count' elements that follow each other both in the saved block, from 'from' on, and in the
 * parameter, from 'to' on: those of them that the saved piece has and our piece wants. */
static int take_run(struct reshard *r, struct shard_reader *reader, int array,
                    const struct index_piece *s, struct want *w, int64_t from, int64_t to,
                    int64_t count, struct error *err)
{
    int64_t skip = most(0, most(s->start - from, w->piece->start - to));
    int64_t end =
        least(count, least(s->start + s->count - from, w->piece->start + w->piece->count - to));

    if (skip >= end)
        return 0;
    w->got += end - skip;
    return shard_reader_get(reader, array, s->offset + from + skip - s->start, end - skip,
                            r->arrays[array] + w->piece->shard + to + skip - w->piece->start, err);
}

static int take(struct reshard *r, struct shard_reader *reader, int array,
                const struct index_piece *s, struct want *w, struct error *err)
{
    const struct parameter *p = w->parameter;
    struct common c = common_of(s, p);
    int64_t from, to;

    if (c.rows <= 0 || c.cols <= 0)
        return 0;
    from = (c.row - s->first_row) * s->cols + c.col - s->first_col;
    to = (c.row - p->first_row) * p->cols + c.col - p->first_col;
    if (s->cols == c.cols && p->cols == c.cols)
        return take_run(r, reader, array, s, w, from, to, c.rows * c.cols, err);
    for (int64_t row = 0; row < c.rows; row++)
        if (take_run(r, reader, array, s, w, from + row * s->cols, to + row * p->cols, c.cols,
                     err) < 0)
            return -1;
    return 0;
}

/* Is there anything for us in a file? */
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
    struct shard_reader *reader;
    int rc = 0;

    if (!is_needed(r, file))
        return 0;
    reader = shard_reader_open(r->directory, file, r->index->arrays, err);
    if (!reader)
        return -1;
    for (int array = 0; array < r->array_count && rc == 0; array++)
        for (int i = 0; i < file->pieces && rc == 0; i++) {
            const struct index_piece *s = &r->index->pieces[file->first + i];

            for (int w = r->first[s->tensor]; w >= 0 && rc == 0; w = r->wants[w].next)
                rc = take(r, reader, array, s, &r->wants[w], err);
        }
    shard_reader_close(reader);
    return rc;
}

static int prepare(struct reshard *r, const struct parameters *parameters,
                   const struct pieces *pieces, struct error *err)
{
    const struct checkpoint_index *index = r->index;

    r->wants = calloc((size_t)pieces->count + 1, sizeof(*r->wants));
    r->first = malloc(((size_t)index->tensor_count + 1) * sizeof(*r->first));
    if (!r->wants || !r->first)
        return error_set(err, "out of memory");
    for (int i = 0; i < index->tensor_count; i++)
        r->first[i] = -1;
    for (int i = 0; i < pieces->count; i++) {
        const struct parameter *p = &parameters->list[pieces->list[i].parameter];
        int tensor = index_find(index, p->name);

        if (tensor < 0)
            return error_set(err, "there is no tensor %s", p->name);
        r->wants[i] = (struct want){p, &pieces->list[i], r->first[tensor], 0};
        r->first[tensor] = i;
    }
    return 0;
}

int reshard_read(const char *directory, const struct checkpoint_index *index,
                 const struct parameters *parameters, const struct pieces *pieces,
                 float *const *arrays, int array_count, struct error *err)
{
    struct reshard r = {directory, index, NULL, NULL, arrays, array_count};
    int rc = array_count <= index->arrays ? prepare(&r, parameters, pieces, err)
                                          : error_set(err, "it holds no optimizer");

    for (int i = 0; i < index->file_count && rc == 0; i++)
        rc = read_file(&r, &index->files[i], err);
    for (int i = 0; i < pieces->count && rc == 0; i++)
        if (r.wants[i].got != array_count * pieces->list[i].count)
            rc = error_set(err, "a part of tensor %s is in none of its files",
                           r.wants[i].parameter->name);
    free(r.wants);
    free(r.first);
    return rc;
}

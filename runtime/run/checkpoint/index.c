/* SPDX-License-Identifier: Apache-2.0 */
#include "index_private.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void index_clear(struct checkpoint_index *index)
{
    free(index->tensors);
    free(index->pieces);
    free(index->files);
    memset(index, 0, sizeof(*index));
}

/* Lists of tensors are in similar order: first try the one after the last match. */
static int find_from(const struct checkpoint_index *index, const char *name, int hint)
{
    for (int k = 0; k < index->tensor_count; k++) {
        int i = (hint + 1 + k) % index->tensor_count;

        if (strcmp(index->tensors[i].name, name) == 0)
            return i;
    }
    return -1;
}

int index_find(const struct checkpoint_index *index, const char *name)
{
    return find_from(index, name, -1);
}

/* --- Created from a layout ------------------------------------------------------------------- */

void index_create_tensors(struct checkpoint_index *index, const struct model_config *model)
{
    struct model_config whole = *model;
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct parameters p;

    memset(index, 0, sizeof(*index));
    index->model = *model;
    whole.split.chunks = 1;
    parameters_create(&p, &whole, &one, &at);
    index->tensors = xcalloc((size_t)p.count + 1, sizeof(*index->tensors));
    for (int i = 0; i < p.count; i++) {
        struct index_tensor *tensor = &index->tensors[index->tensor_count++];
        int64_t rows = p.list[i].true_rows;

        memcpy(tensor->name, p.list[i].name, sizeof(tensor->name));
        tensor->rows = rows < p.list[i].all_rows ? rows : p.list[i].all_rows;
        tensor->cols = p.list[i].all_cols;
        tensor->first = -1;
    }
    parameters_destroy(&p);
}

void index_add_piece(struct checkpoint_index *index, const struct index_piece *piece)
{
    int count = index->piece_count;

    /* Room for 64, then doubled whenever a power of two is full. */
    if (count == 0 || (count >= 64 && (count & (count - 1)) == 0))
        index->pieces =
            xrealloc(index->pieces, (size_t)(count ? 2 * count : 64), sizeof(*index->pieces));
    index->pieces[count] = *piece;
    index->pieces[count].next = index->tensors[piece->tensor].first;
    index->tensors[piece->tensor].first = count;
    index->piece_count++;
}

static int add_rank(struct checkpoint_index *index, const struct parameters *p,
                    const struct layout_position *at, int64_t shard, struct error *err)
{
    struct index_file *file = &index->files[index->file_count];
    struct pieces pieces;
    int rc = 0, last = -1;

    pieces_create(&pieces, p, at, shard, PIECES_WRITTEN);
    snprintf(file->name, sizeof(file->name), "rank_%05d.safetensors", index->file_count);
    file->first = index->piece_count;
    for (int i = 0; i < pieces.count; i++) {
        const struct parameter *q = &p->list[pieces.list[i].parameter];
        struct index_piece piece = {
            .tensor = last = find_from(index, q->name, last),
            .first_row = q->first_row,
            .first_col = q->first_col,
            .rows = q->rows,
            .cols = q->cols,
            .start = pieces.list[i].start,
            .count = pieces.list[i].count,
            .offset = file->elements,
        };

        if (piece.tensor < 0) {
            rc = error_bug(err, "there is no tensor called %s", q->name);
            break;
        }
        index_add_piece(index, &piece);
        file->elements += piece.count;
        file->pieces++;
    }
    pieces_destroy(&pieces);
    index->file_count++;
    return rc;
}

int index_create(struct checkpoint_index *index, const struct model_config *model,
                 const struct layout *layout, struct error *err)
{
    int64_t ranks = layout->tp * layout->cp * layout->dp * layout->pp;

    index_create_tensors(index, model);
    index->layout = *layout;
    index->files = xcalloc((size_t)ranks, sizeof(*index->files));
    for (int64_t rank = 0; rank < ranks; rank++) {
        struct layout_position at = layout_position(layout, rank);
        struct parameters p;
        int rc;

        parameters_create(&p, model, layout, &at);
        rc = add_rank(index, &p, &at, shard_number(layout, &at), err);
        parameters_destroy(&p);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where our tensors are in Hugging Face's files. */
#include "hf_families.h"
#include "hf_masked.h"

#include <stdio.h>
#include <string.h>

/* --- The map of a network --------------------------------------------------------------------- */

static void add_row(struct hf_map *map, const struct hf_name *row)
{
    for (size_t i = 0; i < map->rows; i++)
        if (strcmp(map->names[i].ours, row->ours) == 0)
            return;
    if (map->rows < HF_ROWS)
        map->names[map->rows++] = *row;
}

/* Copy a table, in which overrides replace the rows for the same tensors. Overrides keep their
 * order: where one replaces a row, all that are listed before it come first. */
static void set_names(struct hf_map *map, const struct hf_name *names,
                      const struct hf_name *overrides)
{
    for (; names->ours; names++) {
        const struct hf_name *last = overrides;

        while (last && last->ours && strcmp(last->ours, names->ours) != 0)
            last++;
        if (last && last->ours)
            for (const struct hf_name *row = overrides; row <= last; row++)
                add_row(map, row);
        else
            add_row(map, names);
    }
}

int hf_map_of(const struct network *c, struct hf_map *map, struct error *err)
{
    const struct model_shape *s = &c->shape;
    const struct hf_family *found = NULL, *own = NULL, *f;
    const struct network_property *misfit;
    const struct hf_name *names;

    *map = (struct hf_map){.query = s->heads * s->kv_channels,
                           .key = s->query_groups * s->kv_channels,
                           .ffn = s->ffn_hidden,
                           .head = s->kv_channels};
    if (c->masked) {
        names = hf_masked_names(c, &map->name, err);
        if (!names)
            return -1;
        set_names(map, names, NULL);
        return 0;
    }
    for (size_t i = 0; (f = hf_family_at(i)); i++) {
        if (f->architecture == c->architecture)
            own = f;
        if (!hf_family_misfit(f, c) && (!found || f == own))
            found = f;
    }
    misfit = own ? hf_family_misfit(own, c) : NULL;
    if (!found && misfit)
        return error_set(err,
                         "Hugging Face has no such model: its %s cannot have this value of --%s",
                         own->name, network_option(misfit));
    if (!found)
        return error_set(
            err, "Hugging Face has no such model: only GPT-2, Llama, Mistral, Qwen 2 and 3, Phi-3, "
                 "GPT-NeoX, OLMo 1, 2 and 3, Gemma 1, 2 and 3, RoBERTa and BERT with their usual "
                 "layers are supported");
    map->family = found;
    map->name = found->name;
    map->offset = c->layernorm_1p - found->minus_one;
    set_names(map, hf_family_names(found), found->overrides);
    return 0;
}

/* --- One tensor ------------------------------------------------------------------------------- */

const struct hf_name *hf_find_name(const struct hf_map *map, const char *ours, char theirs[HF_NAME])
{
    char text[HF_NAME];
    int layer = -1;

    sscanf(ours, "layers.%d.", &layer);
    for (const struct hf_name *row = map->names; row->ours; row++) {
        if (strchr(row->ours, '%') ? layer < 0 : layer >= 0)
            continue;
        snprintf(text, sizeof(text), row->ours, layer);
        if (strcmp(text, ours) != 0)
            continue;
        snprintf(theirs, HF_NAME, row->theirs, layer);
        return row;
    }
    return NULL;
}

int hf_offset(const struct hf_map *map, const struct hf_name *row)
{
    const char *end = strrchr(row->ours, '.');

    return strstr(row->ours, "norm") && end && strcmp(end, ".weight") == 0 ? map->offset : 0;
}

/* The rows of a part in a fused tensor: its first row, and the rows of the whole. */
struct fused_rows {
    int64_t first, all;
};

static struct fused_rows fused_rows_of(const struct hf_map *map, const struct hf_name *row,
                                       int64_t rows)
{
    int64_t qkv = map->query + 2 * map->key;

    switch (row->part) {
    case PART_QUERY:
        return (struct fused_rows){0, qkv};
    case PART_KEY:
        return (struct fused_rows){map->query, qkv};
    case PART_VALUE:
        return (struct fused_rows){map->query + map->key, qkv};
    case PART_GATE:
        return (struct fused_rows){0, 2 * map->ffn};
    case PART_UP:
        return (struct fused_rows){map->ffn, 2 * map->ffn};
    default:
        return (struct fused_rows){0, rows};
    }
}

/* Our row 'r' (or element of a vector) of a part in the fused tensor. */
static int64_t row_of(const struct hf_map *map, const struct hf_name *row, int64_t rows, int64_t r)
{
    if (row->how & HF_INTERLEAVED)
        return (r / map->head * 3 + (int64_t)row->part - PART_QUERY) * map->head + r % map->head;
    return fused_rows_of(map, row, rows).first + r;
}

void hf_shape(const struct hf_map *map, const struct hf_name *row, const struct parameter *p,
              int64_t *rows, int64_t *cols)
{
    int64_t all_rows = p->true_rows < p->all_rows ? p->true_rows : p->all_rows;

    if (all_rows == 1 || p->all_cols == 1) {
        *rows = 1;
        *cols = fused_rows_of(map, row, all_rows * p->all_cols).all;
    } else if (row->how & HF_TRANSPOSED) {
        *rows = p->all_cols;
        *cols = fused_rows_of(map, row, all_rows).all;
    } else {
        *rows = fused_rows_of(map, row, all_rows).all;
        *cols = p->all_cols;
    }
}

int64_t hf_index(const struct hf_map *map, const struct hf_name *row, const struct parameter *p,
                 int64_t r, int64_t c)
{
    int64_t rows, cols;

    hf_shape(map, row, p, &rows, &cols);
    if (rows == 1)
        return row_of(map, row, p->all_cols, p->all_cols == 1 ? r : c);
    if (row->how & HF_TRANSPOSED)
        return c * cols + row_of(map, row, p->all_rows, r);
    return row_of(map, row, p->all_rows, r) * cols + c;
}

int64_t hf_adjacent(const struct hf_map *map, const struct hf_name *row, const struct parameter *p)
{
    if (row->how & HF_INTERLEAVED)
        return map->head;
    return p->all_rows == 1 ? p->cols : p->rows;
}

int64_t hf_true_rows(const struct parameter *p)
{
    int64_t rows = p->true_rows - p->first_row;

    return rows < 0 ? 0 : rows < p->rows ? rows : p->rows;
}

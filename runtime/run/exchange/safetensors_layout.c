/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"
#include "base/core/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct safetensors_layout *layout, const struct safetensors_entry *e)
{
    return (size_t)(e->rows ? e->rows : 1) * (size_t)e->cols * type_size(layout->type);
}

void safetensors_layout_add(struct safetensors_layout *layout, const char *name, int64_t rows,
                            int64_t cols)
{
    struct safetensors_entry *more;

    layout->entries = xrealloc(layout->entries, layout->count + 1, sizeof(*more));
    more = &layout->entries[layout->count++];
    *more = (struct safetensors_entry){.rows = rows, .cols = cols};
    snprintf(more->name, sizeof(more->name), "%s", name);
    layout->data_bytes += bytes_of(layout, more);
}

static int by_name(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static size_t print_entry(const struct safetensors_layout *layout,
                          const struct safetensors_entry *e, const char *type, size_t at, char *out,
                          size_t room)
{
    char shape[64];

    if (e->rows)
        snprintf(shape, sizeof(shape), "%lld,%lld", (long long)e->rows, (long long)e->cols);
    else
        snprintf(shape, sizeof(shape), "%lld", (long long)e->cols);
    return (size_t)snprintf(out, room,
                            ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                            e->name, type, shape, at, at + bytes_of(layout, e));
}

void safetensors_layout_finish(struct safetensors_layout *layout)
{
    size_t room = 64 + layout->count * 320, used = 8, at = 0, length;
    const char *type = layout->type == TYPE_FP32   ? "F32"
                       : layout->type == TYPE_BF16 ? "BF16"
                                                   : "F16";

    layout->header = xmalloc(room);
    /* Sort by name, as the safetensors library does for tensors of one type. */
    if (layout->count > 1)
        qsort(layout->entries, layout->count, sizeof(*layout->entries), by_name);
    used += (size_t)snprintf(layout->header + used, room - used,
                             "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < layout->count; i++) {
        struct safetensors_entry *e = &layout->entries[i];

        used += print_entry(layout, e, type, at, layout->header + used, room - used);
        e->offset = at;
        at += bytes_of(layout, e);
    }
    used += (size_t)snprintf(layout->header + used, room - used, "}");
    /* The data begins at a multiple of 8. */
    while (used % 8 != 0)
        layout->header[used++] = ' ';
    length = used - 8;
    for (int i = 0; i < 8; i++)
        layout->header[i] = (char)(length >> (8 * i) & 255);
    layout->header_bytes = used;
    for (size_t i = 0; i < layout->count; i++)
        layout->entries[i].offset += used;
}

const struct safetensors_entry *safetensors_layout_find(const struct safetensors_layout *layout,
                                                        const char *name)
{
    for (size_t i = 0; i < layout->count; i++)
        if (strcmp(layout->entries[i].name, name) == 0)
            return &layout->entries[i];
    return NULL;
}

void safetensors_layout_clear(struct safetensors_layout *layout)
{
    free(layout->entries);
    free(layout->header);
    memset(layout, 0, sizeof(*layout));
}

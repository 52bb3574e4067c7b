/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "columns.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

void columns_reserve(struct columns *columns, size_t more)
{
    size_t count = columns->count + more;

    if (count <= columns->capacity)
        return;
    count += count / 2;
    columns->lengths = xrealloc(columns->lengths, count, sizeof(*columns->lengths));
    columns->pointers = xrealloc(columns->pointers, count, sizeof(*columns->pointers));
    columns->documents = xrealloc(columns->documents, count, sizeof(*columns->documents));
    columns->capacity = count;
}

void columns_add(struct columns *columns, int32_t entry, const struct position *cut, size_t id_size,
                 struct position *position)
{
    struct stretch *stretch = &columns->stretch;
    size_t key = stretch->key;

    columns->count++;
    if (ENTRY_TOKENS(entry) > 0) {
        columns->lengths[stretch->sequence_count] = ENTRY_TOKENS(entry);
        columns->pointers[stretch->sequence_count++] =
            (position->tokens[key] - cut->tokens[key]) * (int64_t)id_size;
        position->tokens[key] += ENTRY_TOKENS(entry);
        position->sequences[key]++;
    }
    if (entry & ENTRY_LAST) {
        columns->documents[stretch->document_count++] =
            position->sequences[key] - cut->sequences[key];
        position->documents++;
    }
}

void columns_clear(struct columns *columns)
{
    free(columns->lengths);
    free(columns->pointers);
    free(columns->documents);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: the data of a part that is written to one shard at once. */
#ifndef MEGATRON_PREPROCESS_COLUMNS_H
#define MEGATRON_PREPROCESS_COLUMNS_H

#include "output_layout.h"

/* One key's data of one or several blocks. */
struct stretch {
    size_t shard, key;
    const unsigned char *tokens; /* NULL: already in the output file */
    int64_t token_count, sequence_count, document_count;
    struct position begin; /* only documents and this key's counts are used */
};

/* A stretch and its arrays for the .idx file. All zero is empty. */
struct columns {
    struct stretch stretch;
    int32_t *lengths;
    int64_t *pointers, *documents;
    size_t count, capacity; /* in entries */
};

/* Make room for 'more' further entries. */
void columns_reserve(struct columns *columns, size_t more);

/* Append an entry to the stretch, whose shard begins at 'cut'; columns_reserve made room for it.
 * Advances 'position'. */
void columns_add(struct columns *columns, int32_t entry, const struct position *cut, size_t id_size,
                 struct position *position);

void columns_clear(struct columns *columns);

#endif

/* Inside of preprocess/: what of a part goes into one shard at once, on its way there. */
#ifndef MEGATRON_PREPROCESS_COLUMNS_H
#define MEGATRON_PREPROCESS_COLUMNS_H

#include "places.h"

/* One key's share of one or several blocks. */
struct stretch {
    size_t shard, key;
    const unsigned char *tokens; /* NULL: they are there */
    int64_t token_count, sequence_count, document_count;
    struct place begin; /* only documents and this key's counts are used */
};

/* A stretch, and the arrays of the .idx file for it. All zero is an empty one. */
struct columns {
    struct stretch stretch;
    int32_t *lengths;
    int64_t *pointers, *documents;
    size_t count, capacity; /* entries */
};

/* Make room for 'more' entries behind those there. Returns 0, or -1 when memory is out. */
int columns_reserve(struct columns *columns, size_t more);

/* Add an entry, for which there is room, to the stretch; its shard begins at 'cut'. 'place' is
 * moved behind it. */
void columns_add(struct columns *columns, int32_t entry, const struct place *cut, size_t id_size,
                 struct place *place);

void columns_clear(struct columns *columns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the values of a pickle (pickle.c) and their reader (pickle_read.c). */
#ifndef MEGATRON_PICKLE_PRIVATE_H
#define MEGATRON_PICKLE_PRIVATE_H

#include "pickle.h"

struct values {
    struct pickle_value **list;
    size_t count, room;
};

struct pickle {
    struct block *blocks;
    size_t left; /* free bytes in the first block */
    const struct pickle_value *root;
    struct values persistent;
};

/* A read in progress. */
struct machine {
    struct pickle *pickle;
    const unsigned char *bytes;
    size_t size, at;
    struct values stack, memo;
    size_t *marks, mark_count, mark_room;
    size_t copied; /* pairs that became dicts */
    struct error *err;
};

/* Allocate a cleared value; NULL with the error set. */
struct pickle_value *pickle_new(struct machine *m, enum pickle_type type);

/* Make room for 'count' more elements after the 'used' ones of a list. */
int pickle_reserve(struct machine *m, struct pickle_value ***list, size_t used, size_t *room,
                   size_t count);

/* Append a value, unless it is NULL. */
int pickle_append(struct machine *m, struct values *values, struct pickle_value *value);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the values of a pickle (pickle.c) and their reader (pickle_read.c). */
#ifndef MEGATRON_PICKLE_PRIVATE_H
#define MEGATRON_PICKLE_PRIVATE_H

#include "base/core/list.h"
#include "pickle.h"

struct pickle {
    struct block *blocks;
    size_t left; /* free bytes in the first block */
    const struct pickle_value *root;
    LIST(const struct pickle_value *) persistent;
};

/* A read in progress. */
struct machine {
    struct pickle *pickle;
    const unsigned char *bytes;
    size_t size, at;
    LIST(struct pickle_value *) stack;
    LIST(struct pickle_value *) memo;
    LIST(size_t) marks;
    size_t copied; /* pairs that became dicts */
    struct error *err;
};

/* Allocate a cleared value. */
struct pickle_value *pickle_new(struct pickle *pickle, enum pickle_type type);

#endif

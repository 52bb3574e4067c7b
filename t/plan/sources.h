/* SPDX-License-Identifier: Apache-2.0 */
/* Who publishes training runs: on which kind of node, with which software, and how they count. */
#ifndef MEGATRON_SOURCES_H
#define MEGATRON_SOURCES_H

#include "formulas.h"

struct source {
    const char *prefix; /* of the name in the column "source" */
    const char *gpu;    /* prefix of the column "gpu"; "" for all */
    const char *node;   /* kind; NULL: the first one with the GPU */
    enum flops_kind flops;
    int sharded;        /* parameters are divided over the data-parallel ranks */
    int unpadded;       /* the vocabulary is used as it is rather than as a multiple of 128 * tp */
    int chunks;         /* virtual stages of a pipeline rank where the row does not tell */
    const char *before; /* only names that go on with a date before this one; NULL: all */
};

/* The entry of a row, or the usual one for names that are not known. */
const struct source *source_find(const char *name, const char *gpu);

#endif

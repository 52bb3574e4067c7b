/* SPDX-License-Identifier: Apache-2.0 */
/* All layouts of a model on a cluster that divide, with memory and time, the fastest first. */
#ifndef MEGATRON_SEARCH_H
#define MEGATRON_SEARCH_H

#include "own.h"

/* What the ranking is for. Sizes of 0 are open; others are fixed. */
struct search_request {
    const struct machine *machine;
    int64_t nodes;
    int64_t tp, pp, cp, chunks, micro_batch;
    int recompute; /* enum plan_recompute, or -1 */
    int fp8_too;   /* compare all layouts with fp8, too */
};

struct candidate {
    struct own_layout layout;
    struct plan_run run;
    struct plan_time time;
    struct plan_memory memory; /* with context */
};

/* Why layouts were left out. */
enum search_reason {
    LEFT_NODE,     /* tensor parallelism over more than a node */
    LEFT_MODEL,    /* the model cannot be divided like that */
    LEFT_BATCH,    /* the global batch cannot */
    LEFT_SEQUENCE, /* too few tokens of a sequence on a rank */
    LEFT_MEMORY,   /* over the memory of a GPU */
    SEARCH_REASONS
};

struct search {
    struct candidate *items; /* those that fit, fastest first */
    size_t count, room;
    size_t left[SEARCH_REASONS];
    char why[SEARCH_REASONS][1024]; /* an example of each */
    struct candidate smallest;      /* of those that do not fit; layout.tp is 0 if there is none */
};

/* Search all. Returns 0, also if nothing fits, or -1. search_clear in both cases. */
int search_run(struct search *search, const struct own *own, const struct search_request *request,
               struct error *err);
void search_clear(struct search *search);

/* Whether a candidate fits, but leaves so little memory that it may not in practice: what it needs
 * besides its arenas is an estimate. */
int search_is_tight(const struct candidate *candidate, const struct machine *machine);

/* The candidate to use: the fastest, or, if that one is tight, the fastest that is not, if it is at
 * most 5 % slower. 'search' has candidates; returns the number of one. */
size_t search_recommended(const struct search *search, const struct machine *machine);

/* In words: "tensor parallelism over more than a node". */
const char *search_reason(enum search_reason reason);

#endif

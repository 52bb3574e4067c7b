/* SPDX-License-Identifier: Apache-2.0 */
/* A run of this program: what `megatron train` makes of a command line and a layout. The memory is
 * that of its arenas, from the functions that --dry-run uses. */
#ifndef MEGATRON_OWN_H
#define MEGATRON_OWN_H

#include "run/train/arguments.h"
#include "estimate.h"

/* The command line of `megatron train` without its layout. */
struct own {
    struct arguments arguments;
    struct options_result given;
    struct world world;
    int64_t ranks;
};

/* Bytes on the fullest rank, by kind. */
struct plan_memory {
    double weights, gradients, optimizer, activations, context;
    double total;
};

/* How the ranks share the work. */
struct own_layout {
    int64_t tp, pp, cp, chunks, micro_batch;
    enum plan_recompute recompute;
    int fp8; /* in linear layers, although the command line does not say so */
};

/* Read 'count' words (which must outlive 'own') for 'ranks' ranks. Returns 0 or -1; own_close in
 * both cases. */
int own_open(struct own *own, const char *const *words, int count, int64_t ranks,
             struct error *err);
void own_close(struct own *own);

/* The model, with one rank and one sample at a time, for what does not depend on the layout. */
int own_model(const struct own *own, struct plan_run *run, struct error *err);

/* The run with this layout, or -1 and why `megatron train` refuses it. */
int own_run(const struct own *own, const struct own_layout *layout, struct plan_run *run,
            struct error *err);

/* Bytes on the fullest rank, without context. */
int own_memory(const struct own *own, const struct own_layout *layout, struct plan_memory *memory,
               struct error *err);

#endif

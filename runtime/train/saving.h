/* The checkpoints of a training run, and when it has to end. */
#ifndef MEGATRON_SAVING_H
#define MEGATRON_SAVING_H

#include "arguments.h"
#include "checkpoint.h"

struct saving {
    const struct arguments *a;
    const struct world *world;
    struct comm *comm;
    struct optimizer *optimizer;
    struct checkpoint *checkpoint; /* NULL without --save and --load */
    struct progress start;         /* where the run goes on */
    uint64_t seed;                 /* of its data and random numbers */
    int64_t saved;                 /* iteration of the last save begun */
    int withheld;                  /* nothing is worth saving now */
    double began, margin_most;
    int64_t steps, period; /* steps since the ranks last agreed, and from one time to the next */
    double agreed, longest_period, longest_step; /* when they did; seconds, so far */
};

/* Find and read the checkpoint that the options name and start the engine from it, or from what is
 * in the gradient arena (without 'initialize'), or from random weights. Returns 0,
 * CHECKPOINT_REFUSED as checkpoint_load does, or -1. */
int saving_open(struct saving *saving, const struct arguments *a, const struct world *world,
                struct engine *engine, const struct parallel *parallel, struct device *device,
                int initialize, struct error *err);
void saving_close(struct saving *saving);

/* Does saving_step save a checkpoint after this step? */
int saving_due(const struct saving *saving, const struct progress *progress);

/* After each step (and its evaluation): save if it is due, and say whether the run must 'end' here.
 * Ranks ask each other about once a second, not at every step: at thousands of ranks that would
 * show. */
int saving_step(struct saving *saving, const struct progress *progress, int *end,
                struct error *err);

/* At the end: save what is not saved yet and wait for it. A save that fails is tried again, for a
 * minute or as long as the job's time allows for; then it is an error. */
int saving_end(struct saving *saving, const struct progress *progress, struct error *err);

#endif

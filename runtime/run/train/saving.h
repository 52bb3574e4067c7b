/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of a training run, and when the run must end. */
#ifndef MEGATRON_SAVING_H
#define MEGATRON_SAVING_H

#include "arguments.h"
#include "run/checkpoint/checkpoint.h"

struct saving {
    const struct arguments *a;
    const struct world *world;
    struct comm *comm;
    struct optimizer *optimizer;
    struct checkpoint *checkpoint; /* NULL without --save and --load */
    struct progress start;         /* where the run resumes */
    int64_t loaded;                /* iteration of the weights in --load; 0 without them */
    uint64_t seed;                 /* of its data order and random numbers */
    int64_t saved;                 /* iteration of the last save that was started */
    int withheld;                  /* the weights are currently not worth saving */
    int refused;                   /* ... and the user has been told */
    double began, margin_most;
    int64_t steps, period; /* steps since the ranks last agreed, and between two agreements */
    double agreed, longest_period,
        longest_step; /* time of the last agreement; longest interval and step so far */
};

/* Would saving overwrite checkpoints of another run? --save may contain checkpoints only if the run
 * resumes from them, or if it resumes from a checkpoint that --save contains, too. Returns 0, or -1
 * with code ERROR_USAGE. */
int saving_check(const struct arguments *a, struct error *err);

/* Find and load the checkpoint that the options name and start the engine from it, from what is in
 * the model's start_weights (if 'initialize' is 0), or from random weights. Returns 0,
 * CHECKPOINT_REFUSED like checkpoint_load, or -1. */
int saving_open(struct saving *saving, const struct arguments *a, const struct world *world,
                struct engine *engine, const struct parallel *parallel, struct device *device,
                int initialize, struct error *err);
void saving_close(struct saving *saving);

/* Copy the tokenizer to a directory of weights: the one that the options name, or that of the
 * initial weights. Training does not need it: a failure is only a warning. One rank calls it. */
void saving_tokenizer(const struct arguments *a, const char *directory);

/* Will saving_step save a checkpoint after this step? */
int saving_due(const struct saving *saving, const struct progress *progress);

/* After each step (and its evaluation): save if due, and set 'end' if the run must end here. Ranks
 * agree about once a second and not at every step, which would cost time on thousands of ranks. */
int saving_step(struct saving *saving, const struct progress *progress, int *end,
                struct error *err);

/* At the end: save what has not been saved and wait for it. A failed save is retried for a minute,
 * or as long as the job's time limit allows; then it is an error. */
int saving_end(struct saving *saving, const struct progress *progress, struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of train_run. */
#ifndef MEGATRON_TRAIN_PRIVATE_H
#define MEGATRON_TRAIN_PRIVATE_H

#include "engine/schedule/engine.h"
#include "fairseq_log.h"
#include "feeds.h"
#include "outputs.h"
#include "profile.h"
#include "rank_times.h"
#include "saving.h"
#include "standstill.h"
#include "train.h"

/* Steps whose log line is still to be written. */
struct unlogged {
    int64_t iteration; /* the last of them; 0: there are none */
    int64_t consumed, batch;
};

/* A run of this rank. */
struct train {
    const struct arguments *a;
    const struct world *world;
    struct device *device;
    struct comm *comm;
    struct parallel parallel;
    struct engine *engine;
    struct feeds feeds;
    struct outputs outputs;
    int prints; /* this rank writes the log */
    struct profile profile;
    struct saving saving;
    int64_t iteration, consumed, consumed_valid;
    int64_t total; /* number of iterations, with the batch size that the run resumes with */
    double began;
    double finished; /* when the last logged step finished, or the first one began; host's clock */
    double excluded; /* seconds since then that do not count: those of evaluations */
    int64_t logged;  /* iteration of the last log line */
    struct unlogged unlogged;
    int64_t evaluated;    /* iteration of the last evaluation */
    double train_seconds; /* of all steps that were logged */
    int overflowed;       /* it was reported that an fp8 tensor was inf or NaN */
    double best;          /* lowest validation loss */
    int64_t best_count;   /* evaluations so far */
    /* Of the epoch so far, for fairseq's line at its end; less the steps of the epoch before. */
    struct fairseq_sums epoch;
    struct standstill standstill;
    struct rank_times rank_times;
};

/* Before the first step: open the device, connect the ranks, create the engine, open the data and
 * the outputs. Returns 0, TRAIN_REFUSED or -1. */
int train_set_up(struct train *train, struct error *err);

/* Write the empty file 'name' to the --save directory; it tells `megatron supervise` how far a
 * start got. */
int train_leave_mark(const struct train *train, const char *name, struct error *err);

/* Log the steps since the last log line; 'batch' is the batch size of the last one. If the device
 * is asynchronous, the line is written by train_log_rest while the next step runs, so that the
 * device does not wait for it. */
int train_log_steps(struct train *train, int64_t batch, struct error *err);

/* Write the log line that is still to be written. Call it in each step, once the device is busy
 * with it, and before anything else is printed or the run ends. */
int train_log_rest(struct train *train, struct error *err);

/* Log the epoch that ends here, or the run, in fairseq's format (--log-format json). */
int train_log_fairseq_epoch(struct train *train, struct error *err);

/* Log an evaluation of 'steps' steps in fairseq's format. */
int train_log_fairseq_valid(struct train *train, enum dataset_split split, int64_t steps,
                            double loss, double seconds, struct error *err);

/* An error if the last 'limit' steps up to 'iteration' changed no weight: a run that no longer
 * makes progress must not occupy its GPUs. */
int train_check_standstill(const struct train *train, int64_t iteration, int64_t limit,
                           struct error *err);

/* Was this step the last of an epoch of a masked language model's data? */
int train_ends_epoch(const struct train *train);

/* Is validation due after this step? */
int train_evaluates_now(const struct train *train);

/* Evaluate between two steps; this counts neither as a step nor towards the time of one. */
int train_evaluate_between(struct train *train, struct error *err);

/* After training: the loss on validation and test data. */
int train_evaluate_end(struct train *train, struct error *err);

/* --skip-train: the loss of the loaded weights on validation and test data. */
int train_evaluate_only(struct train *train, struct error *err);

/* Run the next training step on 'micros' micro-batches; if it is to be profiled, profile it. */
int train_run_step(struct train *train, int64_t micros, struct error *err);

/* --profile: print the profile of the steps. */
void train_report_profile(const struct train *train);

/* The samples of a masked language model in 'split', or NULL. */
struct masked *train_masked(const struct train *train, enum dataset_split split);

/* The number of the step that comes after the samples consumed so far. */
int64_t train_data_step(const struct train *train);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a run: saved in the background of training, found and loaded at the start. Every
 * rank writes its own shard of weights and optimizer state to its own file; no rank gathers the
 * model. A save copies the shard to host memory on a separate stream, ordered after the work that
 * the model's stream holds by then and concurrent with later work; a thread writes it. One save is
 * in progress at a time. What all ranks must agree on is gathered over comm, from the calling
 * thread. All calls below except checkpoint_destroy, checkpoint_copied, checkpoint_step and
 * checkpoint_seconds are collective over the world.
 *
 *     checkpoint = checkpoint_create(&config, model, parallel, device, &arrays, &err);
 *     checkpoint_load(checkpoint, &loaded, &err);            weights and state, if there are any
 *     while (training) {
 *         ... a step ...
 *         if (due)
 *             checkpoint_save(checkpoint, &progress, &err);  starts copies; a thread writes
 *         checkpoint_step(checkpoint, &err);
 *     }
 *     checkpoint_wait(checkpoint, &err);
 *     checkpoint_destroy(checkpoint);
 *
 * Tools use the parts: directory.h finds checkpoints, index.h describes one, reshard.h and
 * shard_file.h read and write its tensors. */
#ifndef MEGATRON_CHECKPOINT_H
#define MEGATRON_CHECKPOINT_H

#include "index.h"
#include "engine/model/model.h"

struct checkpoint_config {
    const char *save, *load; /* directories, or NULL */
    int64_t keep_last;       /* number of checkpoints to keep; 0: all */
    int save_optimizer, load_optimizer, load_rng, finetune, override_scheduler;
    int async;     /* write in the background */
    int64_t step;  /* the iteration to load; negative: the newest */
    int must_find; /* a missing checkpoint is an error even if the run saves to the same directory
                    */
    const struct model_config *model;
    const struct step_rules *rules;
    /* Receives progress messages, one line at a time; called on one rank only. */
    void (*say)(const char *text);
};

/* The optimizer's arrays, laid out like struct optimizer_state: on the device, but for the first
 * 'hosted' elements of each, which are in host memory. No master weights: both NULL. */
struct checkpoint_arrays {
    float *master;
    void *moment1, *moment2;
    int64_t hosted;
    float *host_master;
    void *host_moment1, *host_moment2;
    enum device_type moment1_type, moment2_type; /* fp32, or bf16, which is fp32 in files */
};

struct checkpoint;

/* Allocate what saving and loading need, and check that all ranks can write to the save directory.
 * 'model', 'parallel' and 'device' must outlive it. */
struct checkpoint *checkpoint_create(const struct checkpoint_config *config, struct model *model,
                                     const struct parallel *parallel, struct device *device,
                                     const struct checkpoint_arrays *arrays, struct error *err);
void checkpoint_destroy(struct checkpoint *checkpoint);

/* What a checkpoint contained; see checkpoint_load. */
struct checkpoint_loaded {
    int found;         /* a checkpoint was found */
    int resumes;       /* 'state' must be restored */
    int64_t iteration; /* of the checkpoint, also if the run does not continue there */
    struct progress progress;
    struct step_state state;
    uint64_t seed; /* seed of data order and random numbers: the checkpoint's if the run resumes
                      with it */
};

/* What checkpoint_load returns on all ranks if another attempt would not help: there is no
 * checkpoint, or it does not match the run. */
#define CHECKPOINT_REFUSED (-2)

/* Load the newest intact checkpoint of config->load: weights into the model's start_weights, as
 * engine_start expects them, and the moments into their arrays. A damaged checkpoint is reported
 * and the previous one is loaded; one that cannot be read at the moment is an error. A directory
 * without checkpoints is not an error if it is also the one to save to. Returns 0,
 * CHECKPOINT_REFUSED or -1. */
int checkpoint_load(struct checkpoint *checkpoint, struct checkpoint_loaded *loaded,
                    struct error *err);

/* Start saving the state as of all work submitted to the model's stream; without config->async also
 * finish it. Waits for a save that is still in progress, and warns once if this takes longer than a
 * step. A failed save is reported, but is not an error: the run can continue. */
int checkpoint_save(struct checkpoint *checkpoint, const struct progress *progress,
                    struct error *err);

/* The event after the copies of the last save, NULL if nothing is being saved. Whatever overwrites
 * this rank's shard after checkpoint_save must wait for it: the next update (optimizer_hold), not
 * the passes before it. It is valid as long as the checkpoint exists. */
struct device_event *checkpoint_copied(const struct checkpoint *checkpoint);

/* After each step: let the thread write what has been copied. Does not wait. */
int checkpoint_step(struct checkpoint *checkpoint, struct error *err);

/* From time to time, after the same steps on all ranks: finish a save whose files are written. Does
 * not wait for them. */
int checkpoint_poll(struct checkpoint *checkpoint, struct error *err);

/* Wait for the save in progress. */
int checkpoint_wait(struct checkpoint *checkpoint, struct error *err);

/* Iteration of the last successful save, -1: none; did the last save fail? */
int64_t checkpoint_saved(const struct checkpoint *checkpoint);
int checkpoint_failed(const struct checkpoint *checkpoint);

/* Duration of the longest save in seconds; before the first save, on one rank, that of the last
 * save of an earlier run in that directory. 0: unknown. */
double checkpoint_seconds(const struct checkpoint *checkpoint);

#endif

/* Checkpoints of a run: saved behind the training, found and read again at the start.
 *
 * Every rank writes its own share of weights and optimizer to its own file; no rank gathers the
 * model. A save copies the share into host memory on a stream of its own, behind what the model's
 * stream holds by then and beside what comes after it; a thread writes it. One save is under way at
 * a time. What all ranks must agree on they gather over comm, from the thread that calls.
 *
 * All calls below but checkpoint_destroy, checkpoint_copied, checkpoint_step and checkpoint_seconds
 * are collective over the world. */
#ifndef MEGATRON_CHECKPOINT_H
#define MEGATRON_CHECKPOINT_H

#include "index.h"
#include "model.h"

struct checkpoint_config {
    const char *save, *load; /* directories, or NULL */
    int64_t keep_last;       /* checkpoints to keep; 0: all */
    int save_optimizer, load_optimizer, load_rng, finetune, override_scheduler;
    int async;     /* write behind the training */
    int64_t step;  /* the iteration to load; below 0: the newest */
    int must_find; /* no checkpoint is an error also where the run saves */
    const struct model_config *model;
    const struct step_rules *rules;
    /* What a person should know, one line at a time; called on one rank only. */
    void (*say)(const char *text);
};

/* The optimizer's arrays on the device, as struct optimizer_shard has them. */
struct checkpoint_arrays {
    float *master, *moment1, *moment2;
};

struct checkpoint;

/* Make what saving and loading need, and see that the directory to save in can be written to by
 * all ranks. 'model', 'parallel' and 'device' must outlive it. */
struct checkpoint *checkpoint_create(const struct checkpoint_config *config, struct model *model,
                                     const struct parallel *parallel, struct device *device,
                                     const struct checkpoint_arrays *arrays, struct error *err);
void checkpoint_destroy(struct checkpoint *checkpoint);

/* What a checkpoint said; see checkpoint_load. */
struct checkpoint_loaded {
    int found;   /* there was one */
    int resumes; /* 'state' is to be gone on with */
    struct progress progress;
    struct step_state state;
    uint64_t seed; /* of data and random numbers: the checkpoint's where the run goes on with it */
};

/* What checkpoint_load returns on all ranks where another start would not help: there is no
 * checkpoint, or it does not fit the run. */
#define CHECKPOINT_REFUSED (-2)

/* Read the newest whole checkpoint of config->load: weights into the gradient arena, in fp32, as
 * engine_start expects them, and the moments to their place. A damaged one is named and the one
 * before it taken; one that cannot be read now is an error. A directory without checkpoints is no
 * error if it is the one to save in. Returns 0, CHECKPOINT_REFUSED or -1. */
int checkpoint_load(struct checkpoint *checkpoint, struct checkpoint_loaded *loaded,
                    struct error *err);

/* Begin to save the state that all work given to the model's stream leaves; without config->async
 * also end it. Waits for a save that is still under way, and says the first time that this takes
 * longer than a step. A save that fails is said, and is no error: the run can go on. */
int checkpoint_save(struct checkpoint *checkpoint, const struct progress *progress,
                    struct error *err);

/* The mark behind the copies of the last save, NULL where nothing is saved. What overwrites this
 * rank's share after checkpoint_save has to follow it: the next update (optimizer_hold), not the
 * passes before it. It lasts as long as the checkpoint. */
struct device_event *checkpoint_copied(const struct checkpoint *checkpoint);

/* After each step: let the thread write what is copied by now. Does not wait. */
int checkpoint_step(struct checkpoint *checkpoint, struct error *err);

/* Now and then, after the same steps on all ranks: finish a save whose files are written. Does not
 * wait for them. */
int checkpoint_poll(struct checkpoint *checkpoint, struct error *err);

/* Wait for the save under way. */
int checkpoint_wait(struct checkpoint *checkpoint, struct error *err);

/* Iteration of the last save that succeeded, -1: none; did the last one fail? */
int64_t checkpoint_saved(const struct checkpoint *checkpoint);
int checkpoint_failed(const struct checkpoint *checkpoint);

/* Seconds that saves took, the longest; before the first, on one rank, those of the last save of an
 * earlier run in that directory. 0: nothing is known. */
double checkpoint_seconds(const struct checkpoint *checkpoint);

#endif

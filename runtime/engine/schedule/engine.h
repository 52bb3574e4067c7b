/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's share of training steps: run micro-batches through the pipeline, reduce gradients,
 * update weights.
 *
 *     struct engine *engine = engine_create(&config, &parallel, device, &err);
 *     engine_start(engine, 1, NULL, seed, &err);            random weights
 *     for (int64_t i = 1; i <= iterations; i++)
 *         engine_step(engine, loader, i, micros, &err);     enqueues, and does not wait
 *     engine_state(engine, &state, &err);                   waits
 *     engine_destroy(engine);
 */
#ifndef MEGATRON_ENGINE_H
#define MEGATRON_ENGINE_H

#include "data/dataset/dataset.h"
#include "engine/model/model.h"
#include "optimizer.h"

struct engine_config {
    struct model_config model;
    struct optimizer_config optimizer;
    int64_t min_micros,
        max_micros;      /* of one step on a data-parallel rank, with batch-size ramp-up */
    int64_t eval_micros; /* of an evaluation; 0: none */
    double deadline;     /* timeout of any single wait, in seconds */
    int one_by_one;      /* launch every operation individually, without graphs; for profiling */
};

struct engine;

/* Slots that all steps and evaluations of 'config' need on a stage. */
int engine_slots(const struct engine_config *config, const struct layout *layout, int64_t stage,
                 int *slots, struct error *err);

/* Create everything that a rank needs for training and allocate its memory. 'parallel' and 'device'
 * must outlive it. Returns NULL with 'err' set. Caller must destroy. */
struct engine *engine_create(const struct engine_config *config, const struct parallel *parallel,
                             struct device *device, struct error *err);
void engine_destroy(struct engine *engine);

struct model *engine_model(struct engine *engine);
struct optimizer *engine_optimizer(struct engine *engine);

/* Initialize the weights randomly, or use those that a loader has put into the model's
 * start_weights in fp32; then start the optimizer. 'seed' is for the random numbers of all steps.
 */
int engine_start(struct engine *engine, int initialize, const struct step_state *resumed,
                 uint64_t seed, struct error *err);

/* Enqueue one step of 'micros' micro-batches from 'loader'. Does not wait for the step to finish,
 * only for data and for buffers that are still being copied. */
int engine_step(struct engine *engine, struct batch_loader *loader, int64_t iteration,
                int64_t micros, struct error *err);

/* Have 'busy' called once in every engine_step, when the device has enough work for a while: after
 * the first backward pass, or after all of a step of one micro-batch. A step of many fills the
 * host's buffers, so that engine_step returns only when most of it has run. If 'busy' returns -1,
 * engine_step does, too. */
void engine_on_busy(struct engine *engine, int (*busy)(void *context, struct error *err),
                    void *context);

/* Sums of losses: lm / weight is the mean over all tokens, pair / pair_weight over all pairs. */
struct engine_losses {
    double lm, weight, pair, pair_weight;
};

/* Add the losses of 'micros' micro-batches to 'sums', without training; waits. The same on all
 * ranks of the last stage; no losses on others. */
int engine_evaluate(struct engine *engine, struct batch_loader *loader, int64_t micros,
                    struct engine_losses *sums, struct error *err);

/* The state after all steps enqueued so far; waits for them and for the weights. */
int engine_state(struct engine *engine, struct step_state *state, struct error *err);

/* The state for the log, in two parts, so that the device does not wait for the host: copy the
 * state after all steps enqueued so far and clear the logged counters; later wait for that copy, if
 * it is not done. Further steps may have been enqueued in between. 'seconds': the time on the
 * device since the last report; negative: there was none. One report at a time. */
void engine_report(struct engine *engine);
int engine_report_done(const struct engine *engine);
int engine_reported(struct engine *engine, struct step_state *state, double *seconds,
                    struct error *err);

/* Seconds that the passes of a step took on this rank's device, up to the one that starts to reduce
 * gradients, where ranks wait for each other: the time by which ranks differ. The shortest of the
 * last eight steps; 0 before the first. After engine_state or engine_reported, if nothing has been
 * enqueued since. */
double engine_pass_seconds(const struct engine *engine);

/* Euclidean norm of all parameters of the model, each counted once; waits. Collective. */
int engine_params_norm(struct engine *engine, double *norm, struct error *err);

#endif

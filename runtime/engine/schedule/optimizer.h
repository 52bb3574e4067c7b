/* SPDX-License-Identifier: Apache-2.0 */
/* Adam, SGD or Muon with ZeRO-1 sharding: gradients are reduce-scattered bucket by bucket, each
 * data-parallel rank updates its shard of every bucket, and the weights are all-gathered while the
 * next step's forward pass runs. */
#ifndef MEGATRON_OPTIMIZER_H
#define MEGATRON_OPTIMIZER_H

#include "engine/model/model.h"
#include "muon.h"
#include "optimizer_state.h"

struct optimizer_config {
    struct step_rules rules;
    double epsilon;
    double initial_scale;
    int decay_all;  /* weight decay of norms and biases, too */
    int tied;       /* the head shares the embedding's weights */
    double offload; /* fraction of the optimizer's state that is in host memory */
    int half;       /* fp16 weights without master weights: --memory-efficient-fp16 */
    enum device_type moment1, moment2; /* fp32 or bf16 */
    int gather;              /* the model keeps weights in fp8: fp8.gather of its config */
    struct muon_config muon; /* with rules.optimizer OPTIMIZER_MUON */
};

struct optimizer;

/* The arrays of the optimizer's state for weights of 'type'. */
struct state_types optimizer_types(const struct optimizer_config *config, enum device_type type);

struct optimizer *optimizer_create(const struct optimizer_config *config, struct model *model,
                                   const struct parallel *parallel, struct device *device,
                                   enum device_type type, struct error *err);
void optimizer_destroy(struct optimizer *optimizer);

/* Before the first step: take master weights from the model's start_weights (where model_initialize
 * or a loader left them in fp32), clear the moments, and set the step's state: 'state' after a
 * resume, otherwise NULL. */
int optimizer_start(struct optimizer *optimizer, const struct step_state *state, uint64_t seed,
                    struct error *err);
/* The arrays of this rank's shards. Element b->shard_first + i is element bucket_shard(b,
 * rank).first + i of the arenas. */
const struct optimizer_state *optimizer_state(const struct optimizer *optimizer);

/* The parts of a step, all on the model's stream, after STEP_BEGIN. reduce: the
 * gradients of 'layer' of 'chunk' are complete. finish: reduce the remaining buckets, clip, update,
 * all-gather. Gathering continues after it returns: forward passes wait for the weights that they
 * need (model_on_use). */
void optimizer_reduce(struct optimizer *optimizer, int chunk, int64_t layer);
void optimizer_finish(struct optimizer *optimizer);

/* Can gradients be reduced before optimizer_finish? */
int optimizer_overlaps(const struct optimizer *optimizer);

/* Make the next update, and nothing before it, wait for the last recording of 'event': until then a
 * checkpoint reads this rank's shards. The event must exist until that update. */
void optimizer_hold(struct optimizer *optimizer, struct device_event *event);

/* Are weights being gathered that the model's stream does not wait for yet? */
int optimizer_gathers(const struct optimizer *optimizer);

/* Make the model's stream wait until all weights are gathered, before anything but a forward pass
 * reads them. */
void optimizer_settle(struct optimizer *optimizer);

/* Enqueue a change of the step's state: STEP_BEGIN before the first micro-batch, STEP_RESET after a
 * report for the log. */
void optimizer_phase(struct optimizer *optimizer, enum step_phase phase);

/* Between steps: put the master weights of all ranks, as they are now, into the model's
 * start_weights; waits. For models that keep weights in fp8: others have them in their own type.
 * Collective. */
int optimizer_export(struct optimizer *optimizer, struct error *err);

/* Between steps: put the sum of squares of all weights into the state's norm_squared. */
void optimizer_sum_weights(struct optimizer *optimizer);

#endif

/* Adam over the arenas, divided over the data-parallel ranks: gradients are reduce-scattered bucket
 * by bucket, each rank updates its part of every bucket, and the weights are gathered again while
 * the next step's forward pass is under way. */
#ifndef MEGATRON_OPTIMIZER_H
#define MEGATRON_OPTIMIZER_H

#include "model.h"

struct optimizer_config {
    struct step_rules rules;
    double epsilon;
    double initial_scale;
    int tied; /* the head shares the embedding's weights */
};

/* This rank's part of the optimizer's state, each of 'elements' fp32 in device memory. Element i of
 * bucket b's part is element b->first + rank * (b->size / shards) + i of the arenas. */
struct optimizer_shard {
    float *master; /* NULL where the weights themselves are fp32 */
    float *moment1, *moment2;
    int64_t elements;
};

struct optimizer;

struct optimizer *optimizer_create(const struct optimizer_config *config, struct model *model,
                                   const struct parallel *parallel, struct device *device,
                                   enum device_type type, struct error *err);
void optimizer_destroy(struct optimizer *optimizer);

/* Before the first step: take master weights from the gradient arena (where model_initialize or a
 * loader left them in fp32), clear the moments, and set the step's state. After a resume 'state'
 * says where to go on; NULL: from the start. */
int optimizer_start(struct optimizer *optimizer, const struct step_state *state, uint64_t seed,
                    struct error *err);
struct optimizer_shard optimizer_shard(struct optimizer *optimizer);

/* The parts of a step, all on the model's stream. begin: before the first micro-batch. reduce: the
 * gradients of 'layer' of 'chunk' are complete. finish: reduce what is left, clip, update, gather.
 * The gathering goes on after it: forward passes wait for what they need (model_on_use). */
void optimizer_begin(struct optimizer *optimizer);
void optimizer_reduce(struct optimizer *optimizer, int chunk, int64_t layer);
void optimizer_finish(struct optimizer *optimizer);

/* Is there anything to reduce before optimizer_finish? */
int optimizer_overlaps(const struct optimizer *optimizer);

/* The next update waits for 'event' as it is last recorded by then, and nothing before it does:
 * until there somebody reads the weights of this rank's part or the optimizer's state. The event
 * must last so long. */
void optimizer_hold(struct optimizer *optimizer, struct device_event *event);

/* Are weights being gathered that a forward pass has yet to wait for? */
int optimizer_gathers(const struct optimizer *optimizer);

/* Let the model's stream wait until all weights are gathered: before anything but a forward pass
 * reads them. */
void optimizer_settle(struct optimizer *optimizer);

/* Forget what the log counted. */
void optimizer_reset_log(struct optimizer *optimizer);

/* Between steps: put the sum of squares of all weights into the state's norm_squared. */
void optimizer_sum_weights(struct optimizer *optimizer);

#endif

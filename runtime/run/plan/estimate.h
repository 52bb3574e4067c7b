/* SPDX-License-Identifier: Apache-2.0 */
/* How long a training step takes: a model of the products, the memory traffic, the collectives and
 * the pipeline of one layout on one kind of machine. Pure arithmetic; nothing is run. */
#ifndef MEGATRON_ESTIMATE_H
#define MEGATRON_ESTIMATE_H

#include <stdint.h>
#include "lib/layout.h"
#include "machine.h"
#include "lib/preset.h"

enum plan_recompute { PLAN_RECOMPUTE_NONE, PLAN_RECOMPUTE_SELECTIVE, PLAN_RECOMPUTE_FULL };

/* One way to train a model. */
struct plan_run {
    struct model_shape shape;
    int gated; /* SwiGLU: the feed-forward layer has three matrices */
    int tied;  /* the output layer uses the weights of the embedding */
    int bf16;  /* rather than fp16 */
    struct layout layout;
    int64_t chunks; /* virtual stages per rank, 1 without */
    int64_t micro_batch, global_batch;
    enum plan_recompute recompute;
    enum machine_precision precision;
    int own;          /* of this program, with its own rates and measured steps */
    double offloaded; /* fraction of the optimizer's state in host memory */
    double narrowed;  /* bytes per parameter that this state has less than in fp32 */
};

/* Seconds of a step of the slowest rank, by cause. 'total' is their sum. */
struct plan_time {
    double products, attention, elementwise, tensor, context, head, pipeline, bubble, data,
        optimizer, fixed;
    double total;
};

/* Estimate a step. The run must be divisible (layout_check_model) and global_batch a multiple of
 * dp * micro_batch. */
struct plan_time plan_estimate(const struct plan_run *run, const struct machine *machine);

/* The run of one layer and the output layer that a measured step tells the time of. */
struct plan_run plan_run_of_step(const struct machine_step *step);

/* Floating-point operations of a step that the model needs, without recomputation, with causal
 * attention counted in full, as Megatron-LM and NeMo report them. */
double plan_flops(const struct plan_run *run);

/* A pipeline stage on one tensor-parallel rank. */
struct plan_stage {
    int64_t layers;
    double parameters; /* with the embedding or the output layer on the first and the last stage */
};

/* Stage 'index' of a run. Layers that the stages do not divide, but would with two more, are
 * divided as if the embedding and the output layer were one layer each, as BLOOM and Llama 3 are;
 * otherwise the stages in front have one more. */
struct plan_stage plan_stage(const struct plan_run *run, int64_t index);

#endif

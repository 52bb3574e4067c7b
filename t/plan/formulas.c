/* SPDX-License-Identifier: Apache-2.0 */
#include "formulas.h"

#include <math.h>

/* Activations of one layer and micro-batch: with everything kept but the scores of attention, and
 * those scores. */
static double layer_bytes(const struct plan_run *run, double rows, bool sequence_parallel)
{
    double hidden = (double)run->shape.hidden, tp = (double)run->layout.tp;
    double wide = 18 + 4 * (double)run->shape.ffn_hidden / hidden;

    /* Without sequence parallelism, norms, residuals and dropout (10 of 34) are on every rank. */
    return rows * hidden * (sequence_parallel ? wide / tp : 10 + (wide - 10) / tp);
}

/* Micro-batches whose activations a stage keeps, in units of one stage. */
static double in_flight(const struct plan_run *run, int64_t stage)
{
    double stages = (double)run->layout.pp, chunks = (double)run->chunks;
    double batches = (double)run->global_batch / (double)(run->layout.dp * run->micro_batch);

    if (chunks > 1)
        return fmin(batches, stages) * (1 + (stages - 1) / (stages * chunks));
    return fmin(batches, stages - (double)stage);
}

static double activation_bytes(const struct plan_run *run, int64_t stage, bool classic,
                               bool sequence_parallel)
{
    double rows = (double)(run->micro_batch * run->shape.sequence) / (double)run->layout.cp;
    double layers = (double)plan_stage(run, stage).layers, tp = (double)run->layout.tp;
    double layer = layer_bytes(run, rows, sequence_parallel);
    double scores = classic ? 5 * rows * (double)(run->shape.heads * run->shape.sequence) / tp : 0;
    double kept = layers * in_flight(run, stage);

    if (run->recompute == PLAN_RECOMPUTE_FULL)
        return kept * 2 * rows * (double)run->shape.hidden / (sequence_parallel ? tp : 1) + layer +
               scores;
    return kept * (layer + (run->recompute == PLAN_RECOMPUTE_NONE ? scores : 0));
}

static double stage_memory(const struct plan_run *run, int64_t stage, const struct machine *machine,
                           struct formulas_software software)
{
    const struct machine_memory *m = &machine->memory;
    double parameters = plan_stage(run, stage).parameters;
    double ranks = (double)(run->layout.dp * run->layout.cp), bytes, activations, logits = 0;
    bool classic = machine->gpu.rates.classic > 0;

    bytes = m->state_bytes + (run->bf16 ? m->bf16_bytes : 0) + m->sharded_bytes / ranks;
    if (software.sharded)
        bytes = 16 / ranks;
    activations = activation_bytes(run, stage, classic, software.sequence_parallel);
    /* Without a pipeline the rank with the embedding has the logits, too, in fp32 and 16 bits. */
    if (run->layout.pp == 1 && !classic)
        logits = 10 * (double)(run->micro_batch * run->shape.sequence) / (double)run->layout.cp *
                 (double)run->shape.vocabulary / (double)run->layout.tp;
    return parameters * bytes + m->activations * (activations + logits) + m->context_bytes;
}

double formulas_memory(const struct plan_run *run, const struct machine *machine,
                       struct formulas_software software)
{
    double first = stage_memory(run, 0, machine, software);

    if (run->layout.pp == 1)
        return first;
    /* The second stage has no embedding, but may have one layer more. */
    return fmax(first, stage_memory(run, 1, machine, software));
}

double formulas_flops(const struct plan_run *run, enum flops_kind kind, double parameters)
{
    const struct model_shape *shape = &run->shape;
    double tokens = (double)(run->global_batch * shape->sequence), s = (double)shape->sequence;
    double h = (double)shape->hidden, layers = (double)shape->layers;
    double vocabulary = (double)shape->vocabulary;

    switch (kind) {
    case FLOPS_MODEL:
        return plan_flops(run);
    case FLOPS_CAUSAL:
        return plan_flops(run) - 6 * tokens * layers * s * h;
    case FLOPS_PAPER:
        return 72 * tokens * layers * h * h * (1 + s / (6 * h) + vocabulary / (12 * layers * h));
    case FLOPS_EXECUTED:
        return 96 * tokens * layers * h * h * (1 + s / (6 * h) + vocabulary / (16 * layers * h));
    case FLOPS_8PT:
        return 8 * parameters * tokens;
    case FLOPS_6PT:
        return 6 * parameters * tokens;
    }
    return 0;
}

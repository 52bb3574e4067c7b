/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and floating-point operations of published runs, by the formulas of their authors. */
#ifndef MEGATRON_FORMULAS_H
#define MEGATRON_FORMULAS_H

#include <stdbool.h>
#include "run/plan/estimate.h"

/* How a run used memory, besides what struct plan_run says. */
struct formulas_software {
    bool sharded; /* parameters, too, are divided over the data-parallel ranks (FSDP, ZeRO-3) */
    bool sequence_parallel; /* norms and residuals are divided over the tensor-parallel ranks */
};

/* Bytes on the fullest rank, by Korthikanti's formulas (arXiv 2205.05198) and the machine's bytes
 * per parameter. */
double formulas_memory(const struct plan_run *run, const struct machine *machine,
                       struct formulas_software software);

/* How a publication counts the floating-point operations of a step. */
enum flops_kind {
    FLOPS_MODEL,    /* forward and backward, attention in full */
    FLOPS_CAUSAL,   /* the same with half of the attention */
    FLOPS_PAPER,    /* 72 B s L h^2 (1 + s/6h + V/12Lh): Megatron-LM's papers */
    FLOPS_EXECUTED, /* 96 B s L h^2 (1 + s/6h + V/16Lh): with full recomputation */
    FLOPS_8PT,      /* 8 * parameters * tokens */
    FLOPS_6PT,      /* 6 * parameters * tokens */
};

/* 'parameters' is that of the whole model, for the last two. */
double formulas_flops(const struct plan_run *run, enum flops_kind kind, double parameters);

#endif

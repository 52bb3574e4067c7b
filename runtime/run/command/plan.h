/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron plan` in parts: options (plan.c), layouts of a model (plan_layouts.c) and the
 * measurement of this machine (plan_calibrate.c). */
#ifndef MEGATRON_COMMAND_PLAN_H
#define MEGATRON_COMMAND_PLAN_H

#include "run/plan/machine.h"
#include "base/core/option.h"

struct plan_options {
    const char *model, *layers, *hidden, *ffn, *heads, *groups, *sequence, *vocabulary, *batch;
    int swiglu, precision, explain, json, csv;
    const char *node, *machines, *tokens, *layout, *svg, *record, *calibrate;
    int device;
    int64_t nodes, gpus, top;
    double price, save_bandwidth, fault_hours, restart_minutes;
};

enum { PRECISION_BF16, PRECISION_FP16, PRECISION_FP8, PRECISION_ALL };

/* Rank the layouts of the model on the command line and print them. 'result' has the options of
 * `megatron train` after "--". */
int plan_layouts(const struct plan_options *options, const struct options_result *result,
                 const struct machines *machines, struct error *err);

/* Measure this machine and write a machine file. All ranks of a job call it. */
int plan_calibrate(const struct plan_options *options, const struct machines *machines,
                   struct error *err);

#endif

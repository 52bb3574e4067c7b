/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: the run of one rank. */
#ifndef MEGATRON_PREPROCESS_RUN_H
#define MEGATRON_PREPROCESS_RUN_H

#include "assemble.h"
#include "encode.h"
#include "output_layout.h"

struct run {
    const struct preprocess_config *config;
    struct tokenizer *tokenizer;
    struct punkt *punkt; /* for --split-sentences */
    struct phase chunks; /* the first phase */
    struct encode encode;
    struct output_layout layout;
    struct assembly assembly; /* its layout is NULL until it is known */
};

/* Find the input files, cut them and identify the run; the caller must clear the plan also on
 * error. */
int plan_make(struct input_plan *plan, const struct preprocess_config *config,
              const struct tokenizer *tokenizer, struct error *err);

/* Print the summary of a complete run. */
void summary_print(const struct run *run, const struct jobs *engine);

#endif

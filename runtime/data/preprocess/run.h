/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: the state of one rank, and its phases. */
#ifndef MEGATRON_PREPROCESS_RUN_H
#define MEGATRON_PREPROCESS_RUN_H

#include "assemble.h"
#include "data/jobs/board.h"
#include "encode.h"
#include "output_layout.h"
#include "report.h"

struct run {
    const struct preprocess_config *config;
    struct work work;
    struct input_plan plan;
    struct tokenizer *tokenizer;
    struct punkt *punkt; /* for --split-sentences */
    struct encode encode;
    struct board parts, copies, single; /* single: the layout, then the end */
    struct output_layout layout;
    struct assembly assembly;
    struct report report;
    bool assembling; /* layout and assembly are in use */
    pthread_t monitor;
    bool monitoring;
    bool monitor_stop;
    pthread_cond_t monitor_wake;
    pthread_mutex_t monitor_lock, redo_lock;
};

/* Find the input files, cut them and identify the run; the caller must clear the plan also on
 * error. */
int plan_make(struct input_plan *plan, const struct preprocess_config *config,
              const struct tokenizer *tokenizer, struct error *err);

/* Run all phases: chunks, layout, copies, finish. Returns 0 or -1; also 0 if another rank has ended
 * the launch. */
int run_phases(struct run *run, struct error *err);

/* The phase that copies parts to their positions. */
int run_copies(struct run *run, struct error *err);

void run_drop_layout(struct run *run);

/* Has another rank ended the launch? Keeps its message. */
bool run_is_over(struct run *run);

/* Sleep while other ranks work, with exponential backoff. */
void run_wait(const struct run *run, double *pause);

/* Stop the monitor thread. */
void run_stop_monitor(struct run *run);

#endif

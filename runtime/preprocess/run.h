/* Inside of preprocess/: one rank's run, and its phases. */
#ifndef MEGATRON_PREPROCESS_RUN_H
#define MEGATRON_PREPROCESS_RUN_H

#include "assemble.h"
#include "board.h"
#include "encode.h"
#include "places.h"
#include "report.h"

struct run {
    const struct preprocess_config *config;
    struct work work;
    struct plan plan;
    struct tokenizer *tokenizer;
    struct encode encode;
    struct front front;
    struct board parts, copies, single; /* single: the layout, then the end */
    struct places layout;
    struct assembly assembly;
    struct report report;
    int complete;   /* it was, when this launch began */
    int finished;   /* by this rank */
    int assembling; /* layout and assembly are in use */
    int ended;      /* somebody else has ended the launch; with the monitor's lock */
    char ending[512];
    pthread_t monitor;
    int monitoring;
    int monitor_stop;
    pthread_cond_t monitor_wake;
    pthread_mutex_t monitor_lock, redo_lock;
};

/* The chunks, the layout, the copies and the end, as far as others have not done them. Returns 0 or
 * -1; 0 also where another rank has ended the launch. */
int run_phases(struct run *run, struct error *err);

/* The phase that copies parts to their places, for run_phases. */
int run_copies(struct run *run, struct error *err);

/* All is done: tell the others, then clean up. */
int run_goodbye(struct run *run, struct error *err);

void run_drop_layout(struct run *run);

/* Has another rank ended the launch? Remembers how. */
int run_is_over(struct run *run);

/* One step of waiting for others: shorter at first. */
void run_wait(const struct run *run, double *pause);

/* In preprocess.c: the thread that shows progress ends. */
void run_stop_monitor(struct run *run);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is restarted from its last checkpoint, and its command line. */
#ifndef MEGATRON_SUPERVISE_H
#define MEGATRON_SUPERVISE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "supervise_signals.h"

struct supervise_options {
    int64_t starts; /* consecutive restarts without a new checkpoint */
    int64_t pause;  /* seconds */
    const char *report;
};

/* How to start the run. */
struct supervise_run {
    /* Start it and wait for it; returns its exit code as a shell reports it, or -1. Takes the
     * signals and updates 'signals'. */
    int (*start)(void *context, const char *const *words, struct supervise_signals *signals,
                 struct error *err);
    void *context;
    int is_launcher; /* it starts the ranks itself: no job of Slurm decides about it */
};

/* Run the command line and restart it from the newest checkpoint in its --save directory until it
 * is finished; returns the exit code, or -1. */
int supervise(const struct supervise_options *given, const struct supervise_run *run,
              const char *const *words, size_t count, struct error *err);

/* The value of an option on a command line; the last one counts. NULL: not given. */
const char *words_value(const char *const *words, const char *name);

/* Does srun repeat the step itself if a node fails? It does on SageMaker HyperPod if
 * --auto-resume=1 was given to srun or, as 'environment' then says, to sbatch. */
int words_resume_themselves(const char *const *words, const char *const *environment);

/* The command line for a run that has checkpoints in 'save': it resumes from the newest, or from
 * iteration 'step' if that is not NULL, not from where it once started. Caller must free; NULL: out
 * of memory. */
const char **words_resumed(const char *const *words, size_t count, const char *save,
                           const char *step);

/* Set 'step' to the iteration that --ckpt-step asks the run to go back to, or NULL. It applies only
 * until the run saves its next checkpoint; a file next to the checkpoints remembers it across a
 * requeue. Prints what it decides. */
int words_step(const char *const *words, const char *save, const char **step, struct error *err);

/* Write a report of the run to 'file', from its log and its --metrics-file; trouble is a warning.
 * The report is made with the signal mask 'mask'. */
void supervise_report(const char *file, const char *const *words, const sigset_t *mask);

#endif

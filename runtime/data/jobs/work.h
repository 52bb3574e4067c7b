/* SPDX-License-Identifier: Apache-2.0 */
/* Private to jobs/: begin and end of a launch, in the work directory OUTPUT.work (jobs.h).
 *     go-LAUNCH          rank 0 has made the plan; contains its identity
 *     plan               input_plan.h
 *     owner              the launch that works here
 *     end-LAUNCH         how the launch ended; stays for ranks that arrive after the others have
 *                        finished
 *     ack-LAUNCH-RANK    this rank has read end-LAUNCH
 *     finished           the output of this identity is complete; only cleanup is left
 * There is nothing to recover, and no rank is indispensable. Claims of another launch count for
 * nothing, so that a restart never waits. A rank that outlives its launch writes the same bytes as
 * the others; if another run (other options, other input) has taken over the output meanwhile, its
 * directory is gone and its next step fails. */
#ifndef MEGATRON_JOBS_WORK_H
#define MEGATRON_JOBS_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include "disk.h"
#include "lib/error.h"
#include "input_plan.h"
#include "base/core/world.h"

struct work {
    const struct world *world;
    char root[DISK_PATH]; /* OUTPUT.work */
    char base[DISK_PATH]; /* OUTPUT.work/IDENTITY; empty until work_use */
    char launch[24];      /* id of the launch */
    uint64_t identity;
    int64_t lease;
    bool owned;       /* this launch owns the directory */
    bool finished;    /* this rank has finished the run */
    bool ended;       /* a rank has ended the launch; see work_is_over */
    char ending[512]; /* its error, or empty after a success */
};

/* Also ties this rank to its job step (step_guard.c). Fails if OUTPUT.work is a file or a symbolic
 * link. */
int work_init(struct work *work, const char *output, const struct world *world, int64_t lease,
              struct error *err);

enum work_state { WORK_NEW, WORK_RESUMED, WORK_COMPLETE };

/* Rank 0: begin, or resume, the run of 'plan'. 'existing' is an output file that exists, or NULL;
 * it is an error without 'overwrite', unless a launch of this plan was killed while it renamed
 * files. Keeps what an earlier launch of this plan has done, and removes all other files of runs;
 * fails if there are files that no run has written. Returns an enum work_state, or -1. */
int work_begin(struct work *work, const struct input_plan *plan, const char *existing,
               bool overwrite, struct error *err);

/* Other ranks: wait for rank 0 and read its plan. Returns 0, 1 if the launch has already ended, or
 * -1. */
int work_await(struct work *work, struct input_plan *plan, struct error *err);

/* Has a rank ended the launch? */
bool work_is_over(struct work *work);

/* Has a rank that finished removed the directory? Another launch would have put its own files
 * there. */
bool work_was_removed(struct work *work);

/* The error of a rank that finds the directory gone. Returns -1. */
int work_set_gone(const struct work *work, struct error *err);

/* Record that the output is complete: if a launch is killed after this, the next one only has to
 * call work_finish. */
int work_mark_finished(struct work *work, struct error *err);

/* The output is complete: tell the other ranks, and remove the directory. */
int work_finish(struct work *work, struct error *err);

/* End this rank, whose share of the work returned 'rc': follow the rank that has ended the launch;
 * or, after an error, end the launch. 'useless': after a usage error nothing of the run can be
 * resumed, so the directory is removed. Returns 0 or -1. */
int work_close(struct work *work, int rc, bool useless, struct error *err);

/* Acknowledge the end of the launch. After a success the last rank removes the remaining files. */
void work_acknowledge(struct work *work, bool success);

/* Remove the drafts and claims that killed launches left in 'base', a directory of the run. */
void work_remove_leftovers(const struct work *work, const char *base);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One command of `megatron data`, run by all ranks of a step together.
 *
 * A run is a sequence of phases, and a phase a number of jobs. Ranks and their threads claim jobs
 * through files in the work directory OUTPUT.work (preprocess/work.h and board.h), and the next
 * phase begins when all jobs of the one before are done. A job's result depends on the plan and on
 * the phases before it, never on who does it: it can be done again by anyone, so a run that was
 * killed goes on with the jobs that are not done, and the output has the same bytes with any number
 * of ranks and threads.
 *
 *     OUTPUT.work/IDENTITY/PHASE/copied-N     job N of the phase is done
 *     OUTPUT.work/IDENTITY/PHASE/result-N     what it has to say
 *     OUTPUT.work/IDENTITY/PHASE/NAME-N       what it has made */
#ifndef MEGATRON_CURATE_H
#define MEGATRON_CURATE_H

#include <stdint.h>
#include "data/preprocess/bytes.h"
#include "lib/error.h"
#include "data/preprocess/input_plan.h"
#include "base/core/threads.h"
#include "data/preprocess/work.h"
#include "base/core/world.h"

/* What all commands have in common. */
struct curate_config {
    const char *command;       /* "filter", for messages */
    const char *const *inputs; /* words as corpus_files_find takes them; none: no corpus */
    size_t input_count;
    enum record_mode mode;    /* JSON lines, if it is not set */
    const char *key;          /* the member that holds the text */
    const char *output;       /* the file or prefix that the work directory is named after */
    const char *outputs[4];   /* all files that the run makes; NULL behind the last */
    const char *keep_dropped; /* NULL: dropped documents are only counted */
    int strict, overwrite;
    int reads_twice;     /* standard input will not do */
    int64_t workers;     /* threads per rank; 0: the CPUs the rank may use */
    int64_t chunk_bytes; /* 0: by the size of the input */
    int64_t most_chunks; /* about so many at most, if chunk_bytes is 0; 0: no limit of its own */
    int64_t lease;       /* seconds without progress after which a job is another rank's */
    int64_t max_line;    /* bytes of the longest line */
};

struct board;

struct curate {
    const struct curate_config *config;
    const struct world *world;
    struct input_plan plan;
    struct work work;
    struct threads *threads;
    int ended; /* another rank has ended the run */
    char ending[512];
    int finished; /* this rank has put the output in place */
    double begin, noted;
};

/* One job in the hands of one thread. */
struct curate_job {
    struct curate *engine;
    struct board *board;
    struct work *work;
    const char *phase;
    size_t number;
};

struct curate_phase {
    const char *name;
    size_t count;
    void *context;
    /* Do job->number. What is put into 'result' can be read in later phases. Returns 0 or -1. */
    int (*job)(void *context, struct curate_job *job, struct bytes *result, struct error *err);
    /* The result is on disk: what the job used up may be removed. May be NULL. */
    void (*after)(void *context, struct curate_job *job);
};

/* Run 'body' between the begin and the end of a run: it calls curate_phase as often as it needs and
 * returns 0 or -1, or 1 as soon as curate_phase did. 'identity' is all that the output depends on
 * besides the input files. Returns 0 when the output is complete. */
int curate_run(const struct curate_config *config, const struct bytes *identity,
               int (*body)(struct curate *engine, void *context, struct error *err), void *context,
               struct error *err);

/* Do this rank's share of a phase and wait for the others'. Returns 0 when all of it is done; 1
 * where another rank has ended the run, well or not; -1. */
int curate_phase(struct curate *engine, const struct curate_phase *phase, struct error *err);

/* The last phase: 'finish' is called on one rank, renames and prints; called again after a kill it
 * must do what is left. Then the work directory goes. Returns as curate_phase. */
int curate_finish(struct curate *engine,
                  int (*finish)(struct curate *engine, void *context, struct error *err),
                  void *context, struct error *err);

/* The error for a file of the work directory that is damaged. Returns -1. */
int curate_damaged(const char *path, struct error *err);

/* The result of a job that is done. Caller clears 'bytes'. */
int curate_result(struct curate *engine, const char *phase, size_t number, struct bytes *bytes,
                  struct error *err);

/* The name of a file that job 'number' of 'phase' makes, and of one in the making by this thread.
 */
int curate_path(const struct curate *engine, const char *phase, const char *name, size_t number,
                char *path, struct error *err);
int curate_draft(const struct curate_job *job, const char *name, char *path, struct error *err);

/* Show the other ranks that the job goes on. */
void curate_touch(struct curate_job *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The engine that runs one `megatron data` command on all ranks of a step.
 *
 *     static int body(struct jobs *engine, void *context, struct error *err)
 *     {
 *         struct phase phase = {"count", engine->plan.chunk_count, context, count_job,
 * NULL}; int rc = jobs_phase(engine, &phase, err);
 *
 *         return rc == 0 ? jobs_finish(engine, finish, context, err) : rc;
 *     }
 *
 *     rc = jobs_run(&config, &identity, body, context, err);
 *
 * A run is a sequence of phases, and a phase is a set of jobs. The ranks and their threads claim
 * jobs through files in the work directory OUTPUT.work (preprocess/work.h and board.h). A phase
 * begins when all jobs of the previous phase are done. The result of a job depends only on the plan
 * and on earlier phases, so any rank can redo any job: a run that was killed continues with the
 * jobs that are not done, and the output has the same bytes for any number of ranks and threads.
 *
 *     OUTPUT.work/IDENTITY/PHASE/copied-N     job N of the phase is done
 *     OUTPUT.work/IDENTITY/PHASE/result-N     its result, for later phases
 *     OUTPUT.work/IDENTITY/PHASE/NAME-N       a file it wrote */
#ifndef MEGATRON_CURATE_H
#define MEGATRON_CURATE_H

#include <stdint.h>
#include "bytes.h"
#include "lib/error.h"
#include "board.h"
#include "base/core/threads.h"
#include "base/core/world.h"

/* The options that all commands share. */
struct jobs_config {
    const char *command;       /* "filter", for messages */
    const char *const *inputs; /* as for corpus_files_find; none: there is no corpus */
    size_t input_count;
    enum record_mode mode;    /* default: JSON lines */
    const char *key;          /* the JSON member that holds the text */
    const char *output;       /* a file or prefix; the work directory is named after it */
    const char *outputs[4];   /* all files that the run writes, then NULL */
    const char *keep_dropped; /* NULL: dropped documents are only counted */
    int strict, overwrite;
    int reads_twice;     /* the input is read twice, so it cannot be standard input */
    int64_t workers;     /* threads per rank; 0: the CPUs the rank may use */
    int64_t chunk_bytes; /* 0: by the size of the input */
    int64_t most_chunks; /* approximate limit if chunk_bytes is 0; 0: none */
    int64_t lease;       /* seconds without progress after which another rank takes a job over */
    int64_t max_line;    /* maximum length of a line in bytes */
};

struct board;

struct jobs {
    const struct jobs_config *config;
    const struct world *world;
    struct input_plan plan;
    struct work work;
    struct threads *threads;
    double begin, noted;
};

/* A job that a thread is running. */
struct job {
    struct jobs *engine;
    struct board *board;
    struct work *work;
    const char *phase;
    size_t number;
};

/* Runs job->number and puts what later phases need into 'result'. Returns 0 or -1. */
typedef int job_function(void *context, struct job *job, struct bytes *result, struct error *err);
/* Runs the phases. Returns 0 or -1, or 1 as soon as jobs_phase or jobs_finish does. */
typedef int jobs_body_function(struct jobs *engine, void *context, struct error *err);
/* Publishes the output and prints the summary. Returns 0 or -1. */
typedef int jobs_finish_function(struct jobs *engine, void *context, struct error *err);

struct phase {
    const char *name;
    size_t count;
    void *context;
    job_function *job;
    /* Called when the result is on disk: removes what the job consumed. May be NULL. */
    void (*after)(void *context, struct job *job);
};

/* Prepare a run, call 'body' and clean up. 'body' calls jobs_phase once per phase and
 * jobs_finish at the end; it returns 0 or -1, or 1 as soon as one of them does. 'identity' is
 * everything that the output depends on besides the input files. Returns 0 when the output is
 * complete. */
int jobs_run(const struct jobs_config *config, const struct bytes *identity,
             jobs_body_function *body, void *context, struct error *err);

/* Do this rank's share of a phase and wait for the other ranks. Returns 0 when the phase is
 * complete, 1 if another rank has ended the run (successfully or not), or -1. */
int jobs_phase(struct jobs *engine, const struct phase *phase, struct error *err);

/* The last phase: one rank calls 'finish', which publishes the output and prints the summary.
 * 'finish' must be idempotent, because it is called again after a kill. Then removes the work
 * directory. Returns like jobs_phase. */
int jobs_finish(struct jobs *engine, jobs_finish_function *finish, void *context,
                struct error *err);

/* Set the error for a damaged file of the work directory. Returns -1. */
int jobs_damaged(const char *path, struct error *err);

/* Read the result of a finished job. The caller clears 'bytes'. */
int jobs_result(struct jobs *engine, const char *phase, size_t number, struct bytes *bytes,
                struct error *err);

/* The path of a file that job 'number' of 'phase' writes, and the path of this thread's draft of
 * it. */
int jobs_path(const struct jobs *engine, const char *phase, const char *name, size_t number,
              char *path, struct error *err);
int job_draft(const struct job *job, const char *name, char *path, struct error *err);

/* Heartbeat: shows the other ranks that the job makes progress. */
void job_touch(struct job *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The engine behind `megatron preprocess`, `megatron data` and `megatron tokenizer train`: a run is
 * a list of phases, a phase is a set of jobs, and any rank may claim, redo and finish any job.
 *
 *     static int body(struct jobs *engine, void *context, struct error *err)
 *     {
 *         struct phase count = {.name = "count", .count = engine->plan.chunk_count, .chunks = true,
 *                               .context = context, .job = count_job};
 *         int rc = jobs_phase(engine, &count, err);
 *
 *         return rc == 0 ? jobs_finish(engine, publish, context, err) : rc;
 *     }
 *
 *     rc = jobs_run(&config, &identity, body, context, &err);
 *
 * Terms
 *     launch       one start of the program: all ranks of one srun
 *     run          all launches that it takes to complete one output
 *     plan         the input files, cut into chunks, and the identity of the run: a hash of
 *                  everything that the output depends on (input_plan.h). Rank 0 makes it.
 *     phase        a set of jobs. It begins when all jobs of the previous phase are done.
 *     job          a unit of work. What it writes depends only on the plan and on earlier phases,
 *                  so any rank can redo it, and the output has the same bytes for any number of
 *                  ranks and threads, whichever of them are killed.
 *     claim        a file by which a rank shows that it works on a job. It only saves work: if a
 *                  claim makes no progress for the time of the lease, another rank takes the job
 *                  over. If both finish, the second one writes the same bytes again.
 *     result       what later phases need to know about a job
 *     done marker  the file that shows that a job is done. It is renamed to its final name when the
 *                  result, its content, is on disk. Its name has the documents and bytes that the
 *                  job has read, so that a listing of the directory is enough to show progress.
 *
 * Files
 *     OUTPUT.work/                      work.h: begin and end of a launch
 *         IDENTITY/                     a run
 *             out-...                   the output files, until they are renamed
 *             progress-LAUNCH-RANK      counts for the progress display; nothing depends on it
 *             PHASE/
 *                 claim-LAUNCH-JOB-GENERATION
 *                 done-JOB-DOCUMENTS-BYTES
 *                 NAME-JOB              a file that the job has written for later phases
 *                 draft-LAUNCH-...      a file that a job is writing
 *
 * A job is free (no claim of this launch), claimed, or done (done marker). A killed rank leaves
 * claims and drafts. The other ranks of its launch take its jobs over. If all ranks are killed,
 * rank 0 of the next launch of the same command removes the claims and drafts of the old one and
 * keeps the done markers; a launch with another identity removes the run. Each tool's last phase
 * renames the output, and the rank that does so removes the directory.
 *
 * Ranks share only the file system. It must support exclusive creation, rename and listing a
 * directory; there are no locks and no messages. */
#ifndef MEGATRON_JOBS_H
#define MEGATRON_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include "board.h"
#include "bytes.h"
#include "input_plan.h"
#include "lib/error.h"
#include "base/core/threads.h"
#include "base/core/world.h"

/* The options that all tools share. */
struct jobs_config {
    const char *command;       /* "filter", for messages */
    const char *const *inputs; /* as for corpus_files_find; none: there is no corpus */
    size_t input_count;
    enum record_mode mode;     /* default: JSON lines */
    const char *key;           /* the JSON member that holds the text */
    const char *output;        /* a file or prefix; the work directory is named after it */
    const char *outputs[4];    /* all files that the run writes, then NULL */
    const char *keep_dropped;  /* NULL: dropped documents are only counted */
    const char *json_progress; /* a file for progress as JSON lines; or NULL */
    int strict, overwrite;
    int reads_twice;      /* the input is read twice, so it cannot be standard input */
    int64_t workers;      /* threads per rank; 0: the CPUs the rank may use */
    int64_t chunk_bytes;  /* 0: by the size of the input */
    int64_t most_chunks;  /* approximate limit if chunk_bytes is 0; 0: none */
    int64_t lease;        /* seconds without progress after which another rank takes a job over */
    int64_t max_line;     /* maximum length of a line in bytes */
    int64_t log_interval; /* log a line of Megatron's per so many documents; 0: see progress.h */
    /* What a tool may do itself; each may be NULL. All ranks: prepare. Rank 0: make the plan and
     * look for output that exists, whose path goes to 'existing' (of DISK_PATH bytes). Is the
     * output complete although this rank has not seen the end of the launch? */
    int (*prepare)(void *context, struct error *err);
    int (*make_plan)(void *context, struct input_plan *plan, char *existing, struct error *err);
    bool (*is_complete)(void *context);
};

struct jobs {
    const struct jobs_config *config;
    const struct world *world;
    struct input_plan plan;
    struct threads *threads;
    char directory[DISK_PATH]; /* OUTPUT.work/IDENTITY */
    char launch[24];           /* id of the launch */
    double begin;
    struct jobs_private *private;
};

/* A job that this rank is running. */
struct job {
    struct jobs *engine;
    struct board *board;
    const char *phase;
    size_t number;
    int64_t documents, bytes, passed; /* what it has read so far: see job_progress */
};

/* Runs job->number and puts what later phases need into 'result'. Returns 0 or -1. */
typedef int job_function(void *context, struct job *job, struct bytes *result, struct error *err);
/* Runs the phases. Returns 0 or -1, or 1 as soon as jobs_phase or jobs_finish does. */
typedef int jobs_body_function(struct jobs *engine, void *context, struct error *err);
/* Publishes the output and prints the summary. Returns 0 or -1. */
typedef int jobs_finish_function(struct jobs *engine, void *context, struct error *err);

struct phase {
    const char *name; /* of its directory: small letters and hyphens */
    size_t count;     /* of jobs */
    bool chunks;      /* job N reads chunk N of the plan */
    int64_t job_size; /* otherwise, what a job counts as 'passed'; 0: nothing before its end */
    void *context;
    job_function *job; /* runs one job in one thread of the engine */
    /* Called when the job is done: removes what it consumed. May be NULL. */
    void (*after)(void *context, struct job *job);

    /* Instead of 'job', for a tool whose threads share jobs: run jobs until none is free. 'first'
     * is one that is already claimed, or NULL; others come from jobs_claim. Each begins with
     * job_begin and ends with job_done. */
    int (*work)(void *context, const size_t *first, struct error *err);
    void (*stop)(void *context); /* make 'work' end soon; called by another thread */
    /* Is the phase complete although some jobs are not done? Returns 1, 0 or -1. May be NULL. */
    int (*is_complete)(void *context, struct error *err);
    bool in_order;       /* the first jobs are needed first; otherwise each rank starts elsewhere */
    const size_t *early; /* jobs that take long and are started first; or NULL */
    size_t early_count;

    /* Set by jobs_phase: the state of all jobs, and what had been read before this launch. */
    struct jobs *engine;
    struct board *board;
    int64_t before_documents, before_bytes;
};

/* Prepare a run, call 'body' and clean up. 'body' calls jobs_phase once per phase and jobs_finish
 * at the end. 'identity' is everything that the output depends on besides the input files and the
 * configuration. Returns 0 when the output is complete. */
int jobs_run(const struct jobs_config *config, const struct bytes *identity,
             jobs_body_function *body, void *context, struct error *err);

/* Do this rank's share of a phase and wait for the other ranks. 'phase' must exist until the end of
 * the run. Returns 0 when the phase is complete, 1 if another rank has ended the launch
 * (successfully or not), or -1. */
int jobs_phase(struct jobs *engine, struct phase *phase, struct error *err);

/* The last phase: one rank calls 'finish', which publishes the output and prints the summary, and
 * removes the work directory. 'finish' must be idempotent, because it is called again after a kill.
 * Returns like jobs_phase. */
int jobs_finish(struct jobs *engine, jobs_finish_function *finish, void *context,
                struct error *err);

/* Read the result of a finished job. The caller clears 'bytes'. */
int jobs_result(struct jobs *engine, const char *phase, size_t number, struct bytes *bytes,
                struct error *err);

/* The path of a file that job 'number' of 'phase' writes, and the path of this process's draft of
 * it. */
int jobs_path(const struct jobs *engine, const char *phase, const char *name, size_t number,
              char *path, struct error *err);
int job_draft(const struct job *job, const char *name, char *path, struct error *err);

/* Set the error for a damaged file of the work directory. Returns -1. */
int jobs_damaged(const char *path, struct error *err);

/* Count what a job has read since the last call: documents, bytes of text, and bytes of input on
 * disk, or a share of phase->job_size. Shows the other ranks that it makes progress. */
void job_progress(struct job *job, int64_t documents, int64_t bytes, int64_t passed);
#define job_touch(job) job_progress(job, 0, 0, 0)

/* For phase->work: claim a free job. Returns 1 and its number, 0 if there is none, or -1. */
int jobs_claim(struct phase *phase, size_t *number, struct error *err);
/* Begin a claimed job, and create its done marker when it has written its files. */
void job_begin(struct phase *phase, size_t number, struct job *job);
int job_done(struct phase *phase, struct job *job, struct error *err);

/* End the progress line on the terminal, if there is one, before other output. */
void jobs_end_line(struct jobs *engine);

#endif

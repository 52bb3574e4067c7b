/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "jobs.h"
#include "lib/clock.h"
#include "disk.h"
#include "progress.h"
#include "work.h"
#include "base/core/list.h"
#include "base/core/storage.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RESULT_MAGIC 0x31534552544144ull /* "DATRES1" */

/* A phase that has begun. Its board stays until the end of the run: the names of results are in
 * it. */
struct begun {
    char name[64];
    struct board board;
};

struct jobs_private {
    struct work work;
    struct progress progress;
    LIST(struct begun *) begun;
    struct phase *phase; /* the current one, or NULL */
    bool finished;       /* this rank has published the output */
    _Atomic bool over;   /* another rank has ended the launch */
    /* The monitor thread; the lock guards what it reads. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t monitor;
    bool monitoring, stop;
};

/* --- Jobs ------------------------------------------------------------------------------------- */

int jobs_path(const struct jobs *engine, const char *phase, const char *name, size_t number,
              char *path, struct error *err)
{
    return disk_path(path, err, "%.3800s/%s/%s-%zu", engine->directory, phase, name, number);
}

int job_draft(const struct job *job, const char *name, char *path, struct error *err)
{
    char host[65] = "";

    gethostname(host, sizeof(host) - 1);
    return disk_path(path, err, "%.3700s/%s/draft-%s-%s-%zu-%s-%ld", job->engine->directory,
                     job->phase, job->engine->launch, name, job->number, host, (long)getpid());
}

int jobs_damaged(const char *path, struct error *err)
{
    return error_set(err, "%s is damaged; remove the work directory that it is in, and run again",
                     path);
}

void job_progress(struct job *job, int64_t documents, int64_t bytes, int64_t passed)
{
    struct progress *progress = &job->engine->private->progress;

    job->documents += documents;
    job->bytes += bytes;
    job->passed += passed;
    progress->documents += documents;
    progress->bytes += bytes;
    progress->passed += passed;
    board_touch(job->board, job->number);
}

/* What a job counts towards the size of its phase. */
static int64_t job_size(const struct phase *phase, size_t number)
{
    if (phase->chunks)
        return input_plan_chunk_bytes(&phase->engine->plan, number);
    return phase->job_size > 0 ? phase->job_size : 1;
}

void job_begin(struct phase *phase, size_t number, struct job *job)
{
    *job = (struct job){
        .engine = phase->engine, .board = phase->board, .phase = phase->name, .number = number};
    phase->engine->private->progress.working++;
}

int jobs_claim(struct phase *phase, size_t *number, struct error *err)
{
    return board_claim(phase->board, number, err);
}

/* Count a job that has ended, whose readers may have counted a little more or less than its size.
 */
static void end_job(const struct phase *phase, const struct job *job)
{
    struct progress *progress = &job->engine->private->progress;

    progress->passed += job_size(phase, job->number) - job->passed;
    progress->working--;
}

int job_done(struct phase *phase, struct job *job, struct error *err)
{
    if (board_mark_done(job->board, job->number, job->documents, job->bytes, NULL, err) < 0)
        return -1;
    end_job(phase, job);
    return 0;
}

int jobs_result(struct jobs *engine, const char *phase, size_t number, struct bytes *bytes,
                struct error *err)
{
    const struct jobs_private *private = engine->private;
    char path[DISK_PATH] = "";
    int rc = 1;

    memset(bytes, 0, sizeof(*bytes));
    for (size_t i = 0; i < private->begun.count; i++)
        if (strcmp(private->begun.items[i]->name, phase) == 0) {
            if (board_done_path(&private->begun.items[i]->board, number, path, err) < 0)
                return -1;
            rc = bytes_load(bytes, RESULT_MAGIC, path, err);
        }
    if (rc > 0)
        return error_set(err, "%s is missing or damaged; remove %s and start again", path,
                         private->work.root);
    return rc;
}

/* --- Phases ----------------------------------------------------------------------------------- */

static bool is_over(struct jobs *engine)
{
    struct jobs_private *private = engine->private;

    pthread_mutex_lock(&private->lock);
    if (work_is_over(&private->work))
    private->over = true;
    pthread_mutex_unlock(&private->lock);
    return private->over;
}

/* The worker pool of a phase. */
struct pool {
    struct phase *phase;
    const size_t *first; /* a job that is already claimed; or NULL */
    atomic_bool failed;
    pthread_mutex_t lock;
    struct error err; /* of the first failed job */
};

static int run_job(struct phase *phase, size_t number, struct error *err)
{
    struct jobs_private *private = phase->engine->private;
    struct bytes result;
    struct job job;
    int rc;

    job_begin(phase, number, &job);
    bytes_begin(&result, RESULT_MAGIC);
    rc = phase->job(phase->context, &job, &result, err);
    if (rc == 0 && !private->finished) {
        rc = board_mark_done(phase->board, number, job.documents, job.bytes, &result, err);
        if (rc == 0 && phase->after)
            phase->after(phase->context, &job);
    }
    bytes_clear(&result);
    end_job(phase, &job);
    return rc;
}

/* A job may fail because another rank took it over, finished it and removed what it reads. */
static bool was_done_by_others(struct phase *phase, size_t number)
{
    return phase->engine->world->size > 1 && board_scan(phase->board, NULL) >= 0 &&
           board_is_done(phase->board, number);
}

/* Worker thread: run jobs until none is free. */
static void worker(void *context, int64_t thread)
{
    struct pool *pool = context;
    struct phase *phase = pool->phase;
    const size_t *first = thread == 0 ? pool->first : NULL;
    struct error err = {.text = ""};

    while (!pool->failed && !phase->engine->private->over) {
        size_t number;
        int rc = 1;

        if (first)
            number = *first;
        else
            rc = board_claim(phase->board, &number, &err);
        first = NULL;
        if (rc == 0)
            return;
        if (rc < 0 || (run_job(phase, number, &err) < 0 && !was_done_by_others(phase, number))) {
            pthread_mutex_lock(&pool->lock);
            if (!pool->failed)
                pool->err = err;
            pool->failed = true;
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

/* Run jobs until none is free. */
static int run_jobs(struct phase *phase, const size_t *first, struct error *err)
{
    struct threads *threads = phase->engine->threads;
    struct pool pool = {.phase = phase, .first = first};

    if (phase->work)
        return phase->work(phase->context, first, err);
    pthread_mutex_init(&pool.lock, NULL);
    threads_run(threads, threads_count(threads), worker, &pool);
    pthread_mutex_destroy(&pool.lock);
    if (pool.failed) {
        *err = pool.err;
        return -1;
    }
    return 0;
}

/* Run free jobs, then wait for those of other ranks, and take over those that make no progress. */
static int run_phase(struct phase *phase, struct error *err)
{
    struct jobs *engine = phase->engine;
    double pause = 0.01, longest = engine->world->size > 100 ? 2 : 0.5;
    const size_t *first = NULL;
    bool waiting = false;

    for (;;) {
        size_t number;
        int64_t left;
        int rc = waiting ? 0 : run_jobs(phase, first, err);

        if (rc < 0 || engine->private->finished || is_over(engine))
            return rc;
        left = board_scan(phase->board, err);
        if (left <= 0)
            return left < 0 ? -1 : 0;
        rc = phase->is_complete ? phase->is_complete(phase->context, err) : 0;
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (!waiting)
            progress_share(&engine->private->progress);
        rc = board_take_over(phase->board, &number, err);
        if (rc < 0)
            return -1;
        first = rc > 0 ? &number : NULL;
        /* A single rank has nobody to wait for: a job is left if its result was removed. */
        waiting = rc == 0 && engine->world->size > 1;
        if (rc == 0)
            clock_sleep(pause);
        pause = pause * 1.5 < longest ? pause * 1.5 : longest;
    }
}

/* Count what is done as progress of earlier launches. */
static void begin_progress(struct phase *phase)
{
    struct jobs_private *private = phase->engine->private;
    int64_t total = 0, passed = 0;

    for (size_t i = 0; i < phase->count; i++) {
        const struct job_state *job = &phase->board->jobs[i];

        total += job_size(phase, i);
        if (!job->done)
            continue;
        passed += job_size(phase, i);
        phase->before_documents += job->documents;
        phase->before_bytes += job->bytes;
    }
    pthread_mutex_lock(&private->lock);
    progress_begin(&private->progress, phase->name, total, phase->before_documents, passed);
    private->phase = phase;
    pthread_mutex_unlock(&private->lock);
}

int jobs_phase(struct jobs *engine, struct phase *phase, struct error *err)
{
    struct jobs_private *private = engine->private;
    struct begun *begun;
    size_t start = 0;
    int rc = -1;

    if (is_over(engine))
        return 1;
    begun = xcalloc(1, sizeof(*begun));
    *list_add(&private->begun) = begun;
    snprintf(begun->name, sizeof(begun->name), "%s", phase->name);
    phase->engine = engine;
    phase->name = begun->name;
    phase->board = &begun->board;
    if (!phase->in_order)
        start = phase->count * (size_t)engine->world->rank / (size_t)engine->world->size;
    if (board_init(phase->board, &private->work, phase->name, phase->count, start, err) == 0) {
        phase->board->early = phase->early;
        phase->board->early_count = phase->early_count;
        if (engine->world->rank == 0)
            work_remove_leftovers(&private->work, phase->board->directory);
        rc = board_scan(phase->board, err) < 0 ? -1 : 0;
    }
    if (rc == 0) {
        begin_progress(phase);
        rc = run_phase(phase, err);
    }
    pthread_mutex_lock(&private->lock);
    private->phase = NULL;
    pthread_mutex_unlock(&private->lock);
    /* When the launch is over, the directory may be gone, which is then no error. */
    return private->finished ? rc : is_over(engine) ? 1 : rc;
}

/* --- Monitor ---------------------------------------------------------------------------------- */

/* Monitor thread: shows progress, and stops the workers when another rank ends the launch. */
static void *monitor(void *argument)
{
    struct jobs *engine = argument;
    struct jobs_private *private = engine->private;
    double looked = clock_now();

    pthread_mutex_lock(&private->lock);
    while (!private->stop) {
        struct timespec until = clock_after(CLOCK_REALTIME, 0.05);

        pthread_cond_timedwait(&private->wake, &private->lock, &until);
        if (private->stop)
            break;
        progress_tick(&private->progress);
        if (engine->world->size == 1 || clock_now() - looked < 1)
            continue;
        looked = clock_now();
        if (!work_is_over(&private->work))
            continue;
        private->over = true;
        if (private->phase && private->phase->stop)
        private->phase->stop(private->phase->context);
    }
    pthread_mutex_unlock(&private->lock);
    return NULL;
}

static void stop_monitor(struct jobs *engine)
{
    struct jobs_private *private = engine->private;

    if (!private->monitoring)
        return;
    pthread_mutex_lock(&private->lock);
    private->stop = true;
    pthread_cond_signal(&private->wake);
    pthread_mutex_unlock(&private->lock);
    pthread_join(private->monitor, NULL);
    private->monitoring = false;
}

void jobs_end_line(struct jobs *engine)
{
    pthread_mutex_lock(&engine->private->lock);
    progress_end_line(&engine->private->progress);
    pthread_mutex_unlock(&engine->private->lock);
}

/* --- Begin and end ---------------------------------------------------------------------------- */

struct ending {
    jobs_finish_function *finish;
    void *context;
};

/* There is no done marker: the directory is gone instead. The monitor writes to it, so it stops
 * before. */
static int finish_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct ending *ending = context;
    struct jobs *engine = job->engine;
    struct work *work = &engine->private->work;

    (void)result;
    stop_monitor(engine);
    progress_end_line(&engine->private->progress);
    if (ending->finish(engine, ending->context, err) < 0 || work_mark_finished(work, err) < 0 ||
        work_finish(work, err) < 0)
        return -1;
    engine->private->finished = true;
    return 0;
}

int jobs_finish(struct jobs *engine, jobs_finish_function *finish, void *context, struct error *err)
{
    struct ending ending = {finish, context};
    struct phase phase = {.name = "finish", .count = 1, .context = &ending, .job = finish_job};

    return jobs_phase(engine, &phase, err);
}

static int check_files(const struct jobs *engine, struct error *err)
{
    const struct jobs_config *config = engine->config;

    for (size_t i = 0; i < engine->plan.files.count; i++) {
        const char *path = engine->plan.files.items[i].path;

        if (strcmp(path, "-") == 0 && config->reads_twice)
            return error_set_code(err, ERROR_USAGE,
                                  "%s reads its input more than once; give a file instead of "
                                  "standard input",
                                  config->command);
        if (strcmp(path, "-") == 0 && engine->world->size > 1)
            return error_set_code(err, ERROR_USAGE,
                                  "standard input can be read by one rank only; run %s without "
                                  "srun, or name a file",
                                  config->command);
        for (size_t k = 0; config->outputs[k]; k++)
            if (file_is_same(path, config->outputs[k]))
                return error_set_code(err, ERROR_USAGE,
                                      "%s is both input and output; choose another output", path);
    }
    return 0;
}

/* Each bucket reads a section of every chunk, so a large input must not have too many chunks. */
static int64_t chunk_bytes(const struct jobs *engine)
{
    const struct jobs_config *config = engine->config;
    int64_t total = 0, size;

    for (size_t i = 0; i < engine->plan.files.count; i++)
        total += engine->plan.files.items[i].size;
    size = config->most_chunks > 0 ? total / config->most_chunks : 0;
    return config->chunk_bytes > 0 ? config->chunk_bytes : size > 16 << 20 ? size : 0;
}

static int make_plan(struct jobs *engine, const struct bytes *identity, struct error *err)
{
    const struct jobs_config *config = engine->config;
    struct input_plan *plan = &engine->plan;
    struct bytes bytes = {0};
    int64_t target = 0;

    if (config->input_count > 0) {
        if (corpus_files_find(&plan->files, config->inputs, config->input_count, config->output,
                              err) < 0)
            return -1;
        target = input_plan_cut(plan, config->mode, chunk_bytes(engine));
    }
    input_plan_note(plan, config->chunk_bytes, target);
    bytes_put_text(&bytes, PACKAGE_VERSION);
    bytes_put_text(&bytes, config->command);
    bytes_put_text(&bytes, config->key);
    bytes_put_text(&bytes, config->keep_dropped);
    for (size_t i = 0; config->outputs[i]; i++)
        bytes_put_text(&bytes, config->outputs[i]);
    bytes_put_u64(&bytes, (uint64_t)config->max_line);
    bytes_put_u64(&bytes, (uint64_t)target);
    bytes_put(&bytes, identity->data, identity->size);
    input_plan_put_files(&bytes, plan);
    plan->identity = checksum_seeded(bytes.data, bytes.size, 1);
    bytes_clear(&bytes);
    return 0;
}

/* Find an output file that exists. Returns 0 with its path or "", or -1. */
static int find_existing(const struct jobs_config *config, char *existing, struct error *err)
{
    for (size_t i = 0; config->outputs[i]; i++) {
        if (disk_check_directory(config->outputs[i], err) < 0)
            return -1;
        if (!existing[0] && disk_exists(config->outputs[i]) &&
            disk_path(existing, err, "%s", config->outputs[i]) < 0)
            return -1;
    }
    return 0;
}

/* Rank 0: check input and output, and let the other ranks begin. Returns an enum work_state, or -1.
 */
static int begin(struct jobs *engine, const struct bytes *identity, void *context,
                 struct error *err)
{
    const struct jobs_config *config = engine->config;
    char existing[DISK_PATH] = "";
    int rc;

    if (config->make_plan)
        rc = config->make_plan(context, &engine->plan, existing, err);
    else
        rc = make_plan(engine, identity, err) < 0 ? -1 : find_existing(config, existing, err);
    if (rc < 0 || check_files(engine, err) < 0)
        return -1;
    return work_begin(&engine->private->work, &engine->plan, existing[0] ? existing : NULL,
                      config->overwrite, err);
}

static int run_all(struct jobs *engine, const struct bytes *identity, jobs_body_function *body,
                   void *context, struct error *err)
{
    const struct jobs_config *config = engine->config;
    struct jobs_private *private = engine->private;
    int rc = 0;

    if (config->prepare && config->prepare(context, err) < 0)
        return -1;
    if (engine->world->rank == 0) {
        rc = begin(engine, identity, context, err);
        if (rc == WORK_COMPLETE) {
            printf("Already complete: %s\n", config->output);
            return work_finish(&private->work, err);
        }
        if (rc == WORK_RESUMED)
            printf("Resuming the run in %s\n", private->work.root);
    } else {
        rc = work_await(&private->work, &engine->plan, err);
        if (rc > 0)
            return 1;
    }
    if (rc < 0 || progress_open(&private->progress, config, &private->work, err) < 0)
        return -1;
    memcpy(engine->directory, private->work.base, sizeof(engine->directory));
    memcpy(engine->launch, private->work.launch, sizeof(engine->launch));
    engine->threads = threads_create((int)config->workers, err);
    if (!engine->threads)
        return -1;
    private->monitoring = pthread_create(&private->monitor, NULL, monitor, engine) == 0;
    return body(engine, context, err);
}

/* Did the other ranks finish without this one, which was slow to write to disk or to see the end of
 * the launch, and remove the directory? */
static bool was_completed(struct jobs *engine, void *context)
{
    const struct jobs_config *config = engine->config;

    file_refresh_directory(engine->private->work.root);
    if (!work_was_removed(&engine->private->work))
        return false;
    if (config->is_complete)
        return config->is_complete(context);
    for (size_t i = 0; config->outputs[i]; i++)
        if (!disk_exists(config->outputs[i]))
            return false;
    return true;
}

/* Many threads have chunks and output files open at the same time. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run_launch(struct jobs *engine, const struct bytes *identity, jobs_body_function *body,
                      void *context, struct error *err)
{
    const struct jobs_config *config = engine->config;
    struct work *work = &engine->private->work;
    int rc;

    if (work_init(work, config->output, engine->world, config->lease, err) < 0)
        return -1;
    rc = run_all(engine, identity, body, context, err);
    stop_monitor(engine);
    if (rc < 0 && was_completed(engine, context)) {
        work_acknowledge(work, true);
        rc = 0;
    } else {
        /* A corrected command line continues what an earlier one has done before this run began;
         * with --strict, corrected input does. */
        rc = work_close(work, rc, work->base[0] && !config->strict, err);
    }
    progress_close(&engine->private->progress, rc == 0);
    return rc;
}

int jobs_run(const struct jobs_config *config, const struct bytes *identity,
             jobs_body_function *body, void *context, struct error *err)
{
    struct jobs_private *private = xcalloc(1, sizeof(*private));
    struct jobs engine = {.config = config, .private = private, .begin = clock_now()};
    struct world world;
    int rc;

    raise_descriptors();
    /* With a file size limit, fail the write instead of being killed by SIGXFSZ. */
    signal(SIGXFSZ, SIG_IGN);
    pthread_mutex_init(&private->lock, NULL);
    pthread_cond_init(&private->wake, NULL);
    rc = world_read(&world, err);
    /* Die with the launcher. A rank started by hand survives its shell. */
    if (rc == 0 && strcmp(world.source, "default") != 0)
        rc = world_die_with_parent(err);
    engine.world = &world;
    if (rc == 0)
        rc = run_launch(&engine, identity, body, context, err);
    for (size_t i = 0; i < private->begun.count; i++) {
        board_clear(&private->begun.items[i]->board);
        free(private->begun.items[i]);
    }
    list_free(&private->begun);
    threads_destroy(engine.threads);
    input_plan_clear(&engine.plan);
    pthread_mutex_destroy(&private->lock);
    pthread_cond_destroy(&private->wake);
    free(private);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "jobs.h"
#include "board.h"
#include "lib/clock.h"
#include "disk.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RESULT_MAGIC 0x31534552544144ull /* "DATRES1" */

/* How long a rank that failed waits for the others to notice; interval of progress notes. */
static const double failure_seconds = 60, note_seconds = 10;

/* --- Jobs ------------------------------------------------------------------------------------- */

/* The worker pool of a phase. */
struct pool {
    struct jobs *engine;
    const struct phase *phase;
    struct board board;
    struct work work; /* a copy whose 'base' is the phase's directory */
    atomic_int stop;
    pthread_mutex_t lock;
    struct error err; /* of the first failed job */
    int failed;
};

int jobs_path(const struct jobs *engine, const char *phase, const char *name, size_t number,
              char *path, struct error *err)
{
    return disk_path(path, err, "%.3800s/%s/%s-%zu", engine->work.base, phase, name, number);
}

int job_draft(const struct job *job, const char *name, char *path, struct error *err)
{
    char host[65] = "";

    gethostname(host, sizeof(host) - 1);
    return disk_path(path, err, "%.3700s/draft-%s-%s-%zu-%s-%ld", job->work->base,
                     job->work->launch, name, job->number, host, (long)getpid());
}

void job_touch(struct job *job)
{
    board_touch_often(job->work, job->board, job->number);
}

int jobs_damaged(const char *path, struct error *err)
{
    return error_set(err, "%s is damaged; remove the work directory that it is in, and run again",
                     path);
}

int jobs_result(struct jobs *engine, const char *phase, size_t number, struct bytes *bytes,
                struct error *err)
{
    char path[DISK_PATH];
    int rc;

    memset(bytes, 0, sizeof(*bytes));
    if (jobs_path(engine, phase, "result", number, path, err) < 0)
        return -1;
    rc = bytes_load(bytes, RESULT_MAGIC, path, err);
    if (rc > 0)
        return error_set(err, "%s is missing or damaged; remove %s and start again", path,
                         engine->work.root);
    return rc;
}

static int run_job(struct pool *pool, size_t number, struct error *err)
{
    struct job job = {pool->engine, &pool->board, &pool->work, pool->phase->name, number};
    struct bytes result;
    char path[DISK_PATH];
    int rc;

    bytes_begin(&result, RESULT_MAGIC);
    rc = pool->phase->job(pool->phase->context, &job, &result, err);
    if (rc == 0)
        rc = jobs_path(pool->engine, pool->phase->name, "result", number, path, err);
    if (rc < 0) {
        bytes_clear(&result);
        return -1;
    }
    if (bytes_save(&result, path, 0, err) < 0 || work_mark_done(&pool->work, number, err) < 0)
        return -1;
    board_done(&pool->board, number, 0, 0);
    if (pool->phase->after)
        pool->phase->after(pool->phase->context, &job);
    return 0;
}

static void note_progress(struct pool *pool)
{
    struct jobs *engine = pool->engine;
    size_t done = 0;

    if (engine->world->rank != 0 || clock_now() - engine->noted < note_seconds)
        return;
    engine->noted = clock_now();
    board_scan(&pool->work, &pool->board, NULL);
    for (size_t i = 0; i < pool->board.count; i++)
        done += (size_t)board_is_done(&pool->board, i);
    log_note("%s: %s: %zu of %zu chunks done", engine->config->command, pool->phase->name, done,
             pool->board.count);
}

static void fail(struct pool *pool, const struct error *err)
{
    pthread_mutex_lock(&pool->lock);
    if (!pool->failed)
        pool->err = *err;
    pool->failed = 1;
    pthread_mutex_unlock(&pool->lock);
    atomic_store(&pool->stop, 1);
}

/* Worker thread: runs jobs until none is unclaimed. */
static void worker(void *context, int64_t thread)
{
    struct pool *pool = context;
    struct error err = {.text = ""};
    size_t number;

    (void)thread;
    while (!atomic_load(&pool->stop)) {
        int rc = board_claim(&pool->work, &pool->board, &number, &err);

        if (rc == 0)
            return;
        if (rc < 0 || run_job(pool, number, &err) < 0) {
            fail(pool, &err);
            return;
        }
        pthread_mutex_lock(&pool->lock);
        note_progress(pool);
        pthread_mutex_unlock(&pool->lock);
    }
}

static int run_pool(struct pool *pool, struct error *err)
{
    struct jobs *engine = pool->engine;
    double pause = 0.01;

    for (;;) {
        size_t number;
        int64_t left;
        int rc;

        threads_run(engine->threads, threads_count(engine->threads), worker, pool);
        if (pool->failed) {
            *err = pool->err;
            return -1;
        }
        if (work_is_over(&engine->work))
            return 1;
        left = board_scan(&pool->work, &pool->board, err);
        if (left <= 0)
            return left < 0 ? -1 : 0;
        rc = board_take_over(&pool->work, &pool->board, &number, err);
        if (rc < 0 || (rc > 0 && run_job(pool, number, err) < 0))
            return -1;
        if (rc > 0)
            continue;
        clock_sleep(pause);
        pause = pause * 1.5 < 0.5 ? pause * 1.5 : 0.5;
    }
}

int jobs_phase(struct jobs *engine, const struct phase *phase, struct error *err)
{
    struct pool pool = {.engine = engine, .phase = phase, .work = engine->work};
    int rc;

    if (work_is_over(&engine->work))
        return 1;
    if (disk_path(pool.work.base, err, "%.3800s/%s", engine->work.base, phase->name) < 0)
        return -1;
    if (mkdir(pool.work.base, 0777) < 0 && errno != EEXIST)
        return work_is_over(&engine->work)
                   ? 1
                   : error_set_errno(err, errno, "cannot create %s", pool.work.base);
    if (engine->world->rank == 0)
        work_remove_leftovers(&pool.work);
    board_init(&pool.board, JOB_MARKED, phase->count,
               phase->count * (size_t)engine->world->rank / (size_t)engine->world->size);
    pthread_mutex_init(&pool.lock, NULL);
    rc = board_scan(&pool.work, &pool.board, err) < 0 ? -1 : run_pool(&pool, err);
    pthread_mutex_destroy(&pool.lock);
    board_clear(&pool.board);
    return rc;
}

/* --- Begin and end ---------------------------------------------------------------------------- */

struct ending {
    struct jobs *engine;
    jobs_finish_function *finish;
    void *context;
    int mine;
};

static int finish_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct ending *ending = context;

    (void)job;
    bytes_put_u64(result, 1);
    ending->mine = 1;
    return ending->finish(ending->engine, ending->context, err);
}

/* Wait until the rank that finished has published the result. */
static int await_end(struct jobs *engine, struct error *err)
{
    double begin = clock_now(), pause = 0.01;

    while (!work_is_over(&engine->work)) {
        if (disk_is_gone(engine->work.base) && work_was_removed(&engine->work))
            return 1;
        if (clock_now() - begin > (double)engine->config->lease + failure_seconds)
            return error_set(err,
                             "no rank has finished the run within %.0f s; start the command again, "
                             "it continues where it stopped",
                             clock_now() - begin);
        clock_sleep(pause);
        pause = pause * 1.5 < 0.5 ? pause * 1.5 : 0.5;
    }
    return 1;
}

int jobs_finish(struct jobs *engine, jobs_finish_function *finish, void *context, struct error *err)
{
    struct ending ending = {engine, finish, context, 0};
    struct phase phase = {"finish", 1, &ending, finish_job, NULL};
    int rc = jobs_phase(engine, &phase, err);

    if (rc != 0)
        return rc;
    /* A single rank must do this itself, also if the previous launch was killed right here. */
    if (!ending.mine && engine->world->size > 1)
        return await_end(engine, err);
    if (work_mark_finished(&engine->work, err) < 0)
        return -1;
    return work_finish(&engine->work, err);
}

static int check_files(const struct jobs *engine, struct error *err)
{
    const struct jobs_config *config = engine->config;

    for (size_t i = 0; i < engine->plan.files.count; i++) {
        const char *path = engine->plan.files.items[i].path;

        if (strcmp(path, "-") == 0 && (engine->world->size > 1 || config->reads_twice))
            return error_set_code(err, ERROR_USAGE,
                                  config->reads_twice
                                      ? "%s reads its input more than once; give a file instead of "
                                        "standard input"
                                      : "%s: standard input can be read by one rank only; run it "
                                        "without srun, or name a file",
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
                              err) < 0 ||
            check_files(engine, err) < 0)
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

/* Rank 0: check input and output, and let the other ranks begin. Returns an enum work_state, or -1.
 */
static int begin(struct jobs *engine, const struct bytes *identity, struct error *err)
{
    const struct jobs_config *config = engine->config;
    const char *existing = NULL;

    if (make_plan(engine, identity, err) < 0)
        return -1;
    for (size_t i = 0; config->outputs[i]; i++) {
        if (disk_check_directory(config->outputs[i], err) < 0)
            return -1;
        if (!existing && disk_exists(config->outputs[i]))
            existing = config->outputs[i];
    }
    return work_begin(&engine->work, &engine->plan, existing, config->overwrite, err);
}

static int run_all(struct jobs *engine, const struct bytes *identity, jobs_body_function *body,
                   void *context, struct error *err)
{
    int rc;

    if (engine->world->rank == 0) {
        rc = begin(engine, identity, err);
        if (rc == WORK_COMPLETE) {
            log_note("%s is already complete", engine->config->output);
            return work_finish(&engine->work, err);
        }
        if (rc == WORK_RESUMED)
            log_note("resuming the run in %s", engine->work.root);
    } else {
        rc = work_await(&engine->work, &engine->plan, err);
        if (rc > 0)
            return rc;
    }
    if (rc < 0)
        return -1;
    engine->threads = threads_create((int)engine->config->workers, err);
    return engine->threads ? body(engine, context, err) : -1;
}

int jobs_run(const struct jobs_config *config, const struct bytes *identity,
             jobs_body_function *body, void *context, struct error *err)
{
    struct jobs *engine = xcalloc(1, sizeof(*engine));
    struct world world;
    int rc;

    /* With a file size limit, fail the write instead of being killed by SIGXFSZ. */
    signal(SIGXFSZ, SIG_IGN);
    rc = world_read(&world, err);
    /* Die with the launcher. A rank started by hand survives its shell. */
    if (rc == 0 && strcmp(world.source, "default") != 0)
        rc = world_die_with_parent(err);
    if (rc == 0) {
        engine->config = config;
        engine->world = &world;
        engine->begin = engine->noted = clock_now();
        rc = work_init(&engine->work, config->output, &world, config->lease, err);
    }
    if (rc == 0) {
        rc = run_all(engine, identity, body, context, err);
        rc = work_close(&engine->work, rc, engine->threads && world.size == 1, err);
    }
    threads_destroy(engine->threads);
    input_plan_clear(&engine->plan);
    free(engine);
    return rc;
}

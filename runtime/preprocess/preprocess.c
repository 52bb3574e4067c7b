#include "config.h"
#include "preprocess.h"
#include "assemble.h"
#include "encode.h"
#include "guard.h"
#include "report.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long a rank that failed waits for the others to see it. */
static const double failure_seconds = 5;

struct run {
    const struct preprocess_config *config;
    struct work work;
    struct plan plan;
    struct tokenizer *tokenizer;
    struct encode encode;
    struct board parts, copies, single; /* single: the layout, then the end */
    struct places layout;
    struct assembly assembly;
    struct report report;
    int complete;   /* it was, when this launch began */
    int assembling; /* layout and assembly are in use */
    int ended;      /* somebody else has ended the launch */
    char ending[512];
    pthread_t monitor;
    int monitoring;
    int monitor_stop;
    pthread_cond_t monitor_wake;
    pthread_mutex_t monitor_lock, redo_lock;
};

static void nap(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&time, NULL);
}

/* --- Before the work -------------------------------------------------------------------------- */

/* The first output file that exists; returns 1 and its name. */
static int find_output(const struct preprocess_config *config, char *path, struct error *err)
{
    for (size_t k = 0; k < config->key_count; k++)
        for (size_t s = 0; s < (size_t)config->shards; s++)
            for (int i = 0; i < 2; i++) {
                if (output_path(config->output_prefix, config->keys[k], s, (size_t)config->shards,
                                i ? "idx" : "bin", path, err) < 0)
                    return -1;
                if (disk_exists(path))
                    return 1;
            }
    return 0;
}

static int check_directory(const char *prefix, struct error *err)
{
    char directory[DISK_PATH];
    const char *slash = strrchr(prefix, '/');

    if (disk_path(directory, err, "%.*s", slash ? (int)(slash - prefix) + 1 : 1,
                  slash ? prefix : ".") < 0)
        return -1;
    if (access(directory, W_OK | X_OK) < 0)
        return error_set_errno(err, errno, "cannot write to directory %s", directory);
    return 0;
}

/* Rank 0: look at input and output, and let the others begin. */
static int begin(struct run *run, struct error *err)
{
    const struct preprocess_config *config = run->config;
    char path[DISK_PATH];
    struct plan before;
    int exists, resumed = 0;

    if (plan_make(&run->plan, config, err) < 0)
        return -1;
    if (run->work.world->size > 1 && strcmp(run->plan.files.items[0].path, "-") == 0)
        return error_set(err, "standard input can be read by one rank only; run without srun");
    exists = find_output(config, path, err);
    if (exists < 0)
        return -1;
    /* Killed while it cleaned up. */
    if (exists && work_was_finished(&run->work, run->plan.identity)) {
        run->complete = 1;
        return 0;
    }
    if (exists && !config->overwrite) {
        char plan_path[DISK_PATH];
        int same = 0;

        /* Killed while the files got their names: go on. */
        if (disk_path(plan_path, err, "%.4000s/plan", run->work.root) < 0)
            return -1;
        same = plan_read(&before, plan_path, NULL) == 0 && before.identity == run->plan.identity;
        plan_clear(&before);
        if (!same) {
            rmdir(run->work.root); /* goes only if it is empty */
            return error_set(err, "%s exists; use --overwrite to replace it", path);
        }
    }
    if (work_publish(&run->work, &run->plan, &resumed, err) < 0)
        return -1;
    if (resumed)
        printf("Resuming the run in %s\n", run->work.root);
    return 0;
}

static size_t default_threads(void)
{
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t size = CPU_ALLOC_SIZE(8192);
    int count = 1;

    if (set && sched_getaffinity(0, size, set) == 0)
        count = CPU_COUNT_S(size, set);
    CPU_FREE(set);
    return count > 0 ? (size_t)count : 1;
}

/* --- While it works --------------------------------------------------------------------------- */

/* Watches from the side: shows progress, and stops the threads when another rank has ended all. */
static void *monitor(void *argument)
{
    struct run *run = argument;
    double looked = disk_now();
    char message[512];

    pthread_mutex_lock(&run->monitor_lock);
    while (!run->monitor_stop) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&run->monitor_wake, &run->monitor_lock, &until);
        if (run->monitor_stop)
            break;
        report_tick(&run->report);
        if (disk_now() - looked < 1 || run->work.world->size == 1)
            continue;
        looked = disk_now();
        if (work_ended(&run->work, message, sizeof(message)))
            encode_stop(&run->encode);
    }
    pthread_mutex_unlock(&run->monitor_lock);
    return NULL;
}

static void stop_monitor(struct run *run)
{
    if (!run->monitoring)
        return;
    pthread_mutex_lock(&run->monitor_lock);
    run->monitor_stop = 1;
    pthread_cond_signal(&run->monitor_wake);
    pthread_mutex_unlock(&run->monitor_lock);
    pthread_join(run->monitor, NULL);
    run->monitoring = 0;
}

/* Has another rank ended the launch? Remembers how. */
static int is_over(struct run *run)
{
    if (!run->ended && work_ended(&run->work, run->ending, sizeof(run->ending)))
        run->ended = 1;
    return run->ended;
}

/* One step of waiting for others: shorter at first. */
static void wait_step(const struct run *run, double *pause)
{
    double longest = run->work.world->size > 100 ? 2 : 0.5;

    nap(*pause);
    *pause = *pause * 1.5 < longest ? *pause * 1.5 : longest;
}

/* Are all chunks there that the output needs? */
static int chunks_complete(struct run *run, int64_t left)
{
    return left == 0 || (run->config->max_documents > 0 &&
                         board_prefix(&run->parts, run->config->max_documents) > 0);
}

/* Until all chunks are done, or another rank was so quick that there is a layout of them at
 * 'layout' and some parts are copied and gone. */
static int do_chunks(struct run *run, const char *layout, struct error *err)
{
    double pause = 0.02;

    for (;;) {
        size_t number;
        int64_t left;
        int rc;

        if (encode_run(&run->encode, NULL, err) < 0)
            return -1;
        left = board_scan(&run->work, &run->parts, err);
        if (left < 0)
            return -1;
        if (chunks_complete(run, left) || disk_exists(layout) || is_over(run))
            return 0;
        rc = board_take_over(&run->work, &run->parts, &number, err);
        if (rc < 0 || (rc > 0 && encode_run(&run->encode, &number, err) < 0))
            return -1;
        if (rc == 0)
            wait_step(run, &pause);
    }
}

static int strict_check(const struct run *run, struct error *err)
{
    int64_t faults = 0;

    for (int i = 0; i < FAULT_COUNT; i++)
        faults += run->layout.faults[i];
    if (!run->config->strict || faults == 0)
        return 0;
    return error_set(err, "%lld documents are broken, and --strict passes none over",
                     (long long)faults);
}

static int init_assembly(struct run *run, struct error *err)
{
    run->assembly = (struct assembly){
        .config = run->config, .work = &run->work, .parts = &run->parts, .layout = &run->layout};
    run->assembling = 1;
    return assembly_init(&run->assembly, err);
}

static void drop_layout(struct run *run)
{
    if (run->assembling)
        assembly_clear(&run->assembly);
    places_clear(&run->layout);
    run->assembling = 0;
}

/* Returns 0, 1 if chunks must be made again, -1. */
static int make_layout(struct run *run, const char *path, struct error *err)
{
    int rc = places_make(&run->layout, run->config, &run->plan, &run->work, &run->parts,
                         tokenizer_id_size(run->tokenizer), err);

    if (rc == 0)
        rc = strict_check(run, err);
    if (rc == 0)
        rc = init_assembly(run, err);
    if (rc == 0)
        rc = assembly_create(&run->assembly, err);
    if (rc == 0)
        rc = places_write(&run->layout, path, err);
    /* What counts is what lies there now, perhaps written by another rank. */
    drop_layout(run);
    return rc;
}

/* Get the layout, made by whoever comes first. Returns 0, 1 to go back to the chunks, -1. */
static int do_layout(struct run *run, const char *path, struct error *err)
{
    double pause = 0.01;

    for (;;) {
        size_t number;
        int rc = places_read(&run->layout, path, err);

        if (rc < 0)
            return -1;
        if (rc == 0)
            /* Everything is done now: learn the names of all parts. */
            return board_scan(&run->work, &run->parts, err) < 0 ? -1 : init_assembly(run, err);
        if (is_over(run))
            return 0;
        rc = board_claim(&run->work, &run->single, &number, err);
        if (rc == 0)
            rc = board_take_over(&run->work, &run->single, &number, err);
        if (rc < 0)
            return -1;
        if (rc > 0) {
            report_pause(&run->report);
            rc = make_layout(run, path, err);
            if (rc < 0)
                return -1;
            if (rc == 0)
                continue;
            run->single.jobs[0].mine = 0; /* a torn part: all over again */
            run->single.jobs[0].generation = -1;
            return 1;
        }
        /* Chunks may have been given up by the rank that makes the layout. */
        if (board_scan(&run->work, &run->parts, err) < 0)
            return -1;
        wait_step(run, &pause);
    }
}

/* A part turned out to be damaged while it was copied: make it again, one thread at a time. */
static int redo_chunk(struct run *run, size_t chunk, struct error *err)
{
    int rc;

    pthread_mutex_lock(&run->redo_lock);
    for (size_t i = 0; i < run->parts.count; i++)
        run->parts.jobs[i].mine = 1;
    rc = encode_run(&run->encode, &chunk, err);
    pthread_mutex_unlock(&run->redo_lock);
    return rc;
}

static int copy_group(struct run *run, size_t job, struct error *err)
{
    for (size_t c = run->layout.groups[job]; c < run->layout.groups[job + 1]; c++) {
        int rc = assembly_copy(&run->assembly, c, err);

        if (rc > 0)
            rc = redo_chunk(run, c, err) < 0 ? -1 : assembly_copy(&run->assembly, c, err);
        if (rc > 0)
            return error_set(err, "the part of chunk %zu is damaged again; check the disk", c);
        if (rc < 0)
            return -1;
        board_touch(&run->work, &run->copies, job);
    }
    return 0;
}

struct copier {
    struct run *run;
    const size_t *first;
    struct error err;
    int failed;
    pthread_t thread;
};

static void *copy_thread(void *argument)
{
    struct copier *copier = argument;
    struct run *run = copier->run;
    const size_t *first = copier->first;
    int rc = 1;

    while (rc > 0 && !run->encode.stop) {
        size_t job;

        if (first) {
            job = *first;
            first = NULL;
        } else {
            rc = board_claim(&run->work, &run->copies, &job, &copier->err);
        }
        if (rc > 0 && copy_group(run, job, &copier->err) < 0)
            rc = -1;
    }
    copier->failed = rc < 0;
    return NULL;
}

/* After the bytes are on disk: mark this rank's jobs as done and remove their parts. */
static int mark_copied(struct run *run, struct error *err)
{
    char path[DISK_PATH];

    if (assembly_sync(&run->assembly, err) < 0)
        return -1;
    for (size_t i = 0; i < run->copies.count; i++) {
        struct job *job = &run->copies.jobs[i];

        if (!job->mine || job->done)
            continue;
        if (disk_path(path, err, "%.4000s/copied-%zu", run->work.base, i) < 0 ||
            disk_write_file(path, "", 0, err) < 0)
            return -1;
        board_done(&run->copies, i, 0, 0);
        for (size_t c = run->layout.groups[i]; c < run->layout.groups[i + 1]; c++) {
            const struct job *part = &run->parts.jobs[c];

            if (work_part_path(&run->work, c, part->documents, part->bytes, path, err) == 0)
                unlink(path);
        }
    }
    return 0;
}

static int copy_all(struct run *run, const size_t *first, struct error *err)
{
    size_t threads = run->encode.threads < 16 ? run->encode.threads : 16, started = 0;
    struct copier copiers[16] = {0};
    int failed = 0;

    for (; started < threads; started++) {
        copiers[started].run = run;
        copiers[started].first = started == 0 ? first : NULL;
        if (pthread_create(&copiers[started].thread, NULL, copy_thread, &copiers[started]) != 0)
            break;
    }
    if (started == 0)
        return error_set(err, "cannot start a thread");
    for (size_t i = 0; i < started; i++) {
        pthread_join(copiers[i].thread, NULL);
        if (copiers[i].failed && !failed) {
            failed = 1;
            *err = copiers[i].err;
        }
    }
    return failed ? -1 : mark_copied(run, err);
}

static int do_copies(struct run *run, struct error *err)
{
    double pause = 0.02;
    const size_t *first = NULL;
    size_t number;

    for (;;) {
        int64_t left;
        int rc;

        if (copy_all(run, first, err) < 0)
            return -1;
        first = NULL;
        left = board_scan(&run->work, &run->copies, err);
        if (left < 0)
            return -1;
        if (left == 0 || is_over(run))
            return 0;
        rc = board_take_over(&run->work, &run->copies, &number, err);
        if (rc < 0)
            return -1;
        if (rc > 0)
            first = &number;
        else
            wait_step(run, &pause);
    }
}

/* All is done: tell the others, then clean up. The monitor writes into the directory that goes. */
static int say_goodbye(struct run *run, struct error *err)
{
    stop_monitor(run);
    if (work_end(&run->work, "", (double)run->config->lease, err) < 0)
        return -1;
    work_remove(&run->work);
    return 0;
}

/* The last step, by one rank; the others wait for it. */
static int do_finish(struct run *run, struct error *err)
{
    double pause = 0.01;

    for (;;) {
        size_t number;
        int rc;

        if (is_over(run))
            return 0;
        rc = board_claim(&run->work, &run->single, &number, err);
        if (rc == 0)
            rc = board_take_over(&run->work, &run->single, &number, err);
        if (rc < 0)
            return -1;
        if (rc > 0) {
            if (assembly_finish(&run->assembly, err) < 0 || work_mark_finished(&run->work, err) < 0)
                return -1;
            report_end(&run->report, &run->layout);
            return say_goodbye(run, err);
        }
        wait_step(run, &pause);
    }
}

/* --- The whole -------------------------------------------------------------------------------- */

static int reset_single(struct run *run, enum job_kind kind, struct error *err)
{
    board_clear(&run->single);
    return board_init(&run->single, kind, 1, 0, err);
}

static int do_phases(struct run *run, struct error *err)
{
    char path[DISK_PATH];
    int rc;

    if (disk_path(path, err, "%.4000s/layout", run->work.base) < 0)
        return -1;
    do {
        /* With a layout all chunks are done, and some parts perhaps removed again. */
        int complete = disk_exists(path);

        if (board_scan(&run->work, &run->parts, err) < 0)
            return -1;
        if (!complete && do_chunks(run, path, err) < 0)
            return -1;
        report_share(&run->report);
        if (is_over(run))
            return 0;
        if (reset_single(run, JOB_LAYOUT, err) < 0)
            return -1;
        rc = do_layout(run, path, err);
    } while (rc > 0);
    if (rc < 0 || is_over(run))
        return rc;
    if (board_init(&run->copies, JOB_COPY, run->layout.copies,
                   run->layout.copies * (size_t)run->work.world->rank /
                       (size_t)run->work.world->size,
                   err) < 0 ||
        board_scan(&run->work, &run->copies, err) < 0 || do_copies(run, err) < 0)
        return -1;
    if (is_over(run))
        return 0;
    return reset_single(run, JOB_FINISH, err) < 0 ? -1 : do_finish(run, err);
}

/* What an earlier run has done counts as done in the progress. */
static void count_before(struct run *run)
{
    if (board_scan(&run->work, &run->parts, NULL) < 0)
        return;
    for (size_t i = 0; i < run->parts.count; i++)
        if (run->parts.jobs[i].done) {
            run->report.before_documents += run->parts.jobs[i].documents;
            run->report.before_passed += plan_chunk_bytes(&run->plan, i);
        }
}

static int prepare(struct run *run, struct error *err)
{
    const struct preprocess_config *config = run->config;
    size_t start = 0;

    /* With a limit on documents the first chunks are wanted first; else everyone begins elsewhere.
     */
    if (config->max_documents == 0)
        start =
            run->plan.chunk_count * (size_t)run->work.world->rank / (size_t)run->work.world->size;
    if (board_init(&run->parts, JOB_CHUNK, run->plan.chunk_count, start, err) < 0)
        return -1;
    run->encode.config = config;
    run->encode.plan = &run->plan;
    run->encode.work = &run->work;
    run->encode.board = &run->parts;
    run->encode.tokenizer = run->tokenizer;
    run->encode.threads = config->threads > 0 ? (size_t)config->threads : default_threads();
    if (encode_open(&run->encode, err) < 0)
        return -1;
    run->report.config = config;
    run->report.work = &run->work;
    run->report.encode = &run->encode;
    run->report.plan = &run->plan;
    if (run->work.world->rank == 0)
        count_before(run);
    return 0;
}

static int check_tokenizer(const struct run *run, struct error *err)
{
    if (run->config->append_eod && tokenizer_eod(run->tokenizer) < 0)
        return error_set(err, "--append-eod: this tokenizer has no end of document");
    return 0;
}

static int run_all(struct run *run, struct error *err)
{
    double started = disk_now();
    int rc;

    if (check_directory(run->config->output_prefix, err) < 0)
        return -1;
    run->tokenizer = tokenizer_create(&run->config->tokenizer, err);
    if (!run->tokenizer || check_tokenizer(run, err) < 0)
        return -1;
    if (run->work.world->rank == 0) {
        if (begin(run, err) < 0)
            return -1;
        if (run->complete) {
            printf("Complete already: %s\n", run->config->output_prefix);
            return say_goodbye(run, err);
        }
    } else {
        rc = work_await(&run->work, &run->plan, err);
        if (rc > 0) {
            run->ended = 1;
            snprintf(run->ending, sizeof(run->ending), "%.500s", err->text);
        }
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    if (prepare(run, err) < 0)
        return -1;
    report_init(&run->report);
    if (run->work.world->rank == 0) {
        if (run->plan.files.count > PLAN_NAMED_FILES)
            printf("Opening %zu files\n", run->plan.files.count);
        printf("Time to startup: %.6g\n", disk_now() - started);
    }
    fflush(stdout);
    run->monitoring = pthread_create(&run->monitor, NULL, monitor, run) == 0;
    return do_phases(run, err);
}

static void clean_up(struct run *run)
{
    drop_layout(run);
    board_clear(&run->parts);
    board_clear(&run->copies);
    board_clear(&run->single);
    encode_close(&run->encode);
    plan_clear(&run->plan);
    tokenizer_destroy(run->tokenizer);
    pthread_mutex_destroy(&run->redo_lock);
    pthread_mutex_destroy(&run->monitor_lock);
    pthread_cond_destroy(&run->monitor_wake);
}

/* Another rank ended the launch: this one ends like it. */
static int follow(struct run *run, struct error *err)
{
    work_acknowledge(&run->work);
    if (!run->ending[0])
        return 0;
    return error_set(err, "stopped, because another rank failed: %s", run->ending);
}

int preprocess(const struct preprocess_config *config, const struct world *world, struct error *err)
{
    struct run run = {.config = config};
    int rc;

    guard_start();
    pthread_mutex_init(&run.redo_lock, NULL);
    pthread_mutex_init(&run.monitor_lock, NULL);
    pthread_cond_init(&run.monitor_wake, NULL);
    if (work_init(&run.work, config->output_prefix, world, config->lease, err) < 0)
        return -1;
    rc = run_all(&run, err);
    stop_monitor(&run);
    report_pause(&run.report);
    if (is_over(&run)) {
        rc = follow(&run, err);
    } else if (rc < 0) {
        char message[512];

        snprintf(message, sizeof(message), "%.400s (rank %lld)", err->text, (long long)world->rank);
        work_end(&run.work, message, failure_seconds, NULL);
        if (world->size > 1)
            work_forget_launch(&run.work);
    }
    clean_up(&run);
    return rc;
}

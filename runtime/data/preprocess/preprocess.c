/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "preprocess.h"
#include "lib/clock.h"
#include "lib/cpuset.h"
#include "data/dataset/data_identity.h"
#include "dictionary.h"
#include "base/core/storage.h"
#include "run.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- Before the work -------------------------------------------------------------------------- */

/* Find the first output file that exists, or that is missing. Returns 1 and its path, 0 or -1. */
static int find_output(const struct preprocess_config *config, bool exists, char *path,
                       struct error *err)
{
    for (size_t k = 0; k < config->key_count; k++)
        for (size_t s = 0; s < (size_t)config->shards; s++)
            for (int i = 0; i < 2; i++) {
                if (output_path(config, k, s, i ? "idx" : "bin", path, err) < 0)
                    return -1;
                if (!disk_exists(path) == !exists)
                    return 1;
            }
    return 0;
}

int preprocess_is_complete(const struct preprocess_config *config, struct error *err)
{
    char path[DISK_PATH];
    int missing = find_output(config, false, path, err);

    return missing < 0 ? -1 : !missing;
}

/* Check that an identity file that will be overwritten is not a user's own file. */
static int check_identities(const struct preprocess_config *config, struct error *err)
{
    char path[DISK_PATH];

    for (size_t k = 0; k < config->key_count && !config->overwrite; k++)
        for (size_t s = 0; s < (size_t)config->shards; s++) {
            if (output_path(config, k, s, DATA_IDENTITY_ENDING, path, err) < 0)
                return -1;
            if (!data_identity_may_replace(path)) {
                error_set_code(err, ERROR_USAGE, "%s exists, and no run has written it", path);
                return error_append(err, "; use --overwrite to replace it");
            }
        }
    return 0;
}

/* Rank 0: check input and output, and let the other ranks begin. Returns an enum work_state, or -1.
 */
static int begin(struct run *run, struct error *err)
{
    const struct preprocess_config *config = run->config;
    char path[DISK_PATH];
    int exists;

    if (plan_make(&run->plan, config, run->tokenizer, err) < 0)
        return -1;
    if (run->work.world->size > 1 && strcmp(run->plan.files.items[0].path, "-") == 0)
        return error_set_code(err, ERROR_USAGE,
                              "standard input can be read by one rank only; run without srun");
    exists = find_output(config, true, path, err);
    if (exists < 0 || check_identities(config, err) < 0)
        return -1;
    return work_begin(&run->work, &run->plan, exists ? path : NULL, config->overwrite, err);
}

/* --- While it works --------------------------------------------------------------------------- */

/* Monitor thread: shows progress, and stops the workers when another rank ends the launch. */
static void *monitor(void *argument)
{
    struct run *run = argument;
    double looked = clock_now();

    pthread_mutex_lock(&run->monitor_lock);
    while (!run->monitor_stop) {
        struct timespec until = clock_after(CLOCK_REALTIME, 0.05);

        pthread_cond_timedwait(&run->monitor_wake, &run->monitor_lock, &until);
        if (run->monitor_stop)
            break;
        report_tick(&run->report);
        if (clock_now() - looked < 1 || run->work.world->size == 1)
            continue;
        looked = clock_now();
        if (work_is_over(&run->work))
            encode_stop(&run->encode);
    }
    pthread_mutex_unlock(&run->monitor_lock);
    return NULL;
}

void run_stop_monitor(struct run *run)
{
    if (!run->monitoring)
        return;
    pthread_mutex_lock(&run->monitor_lock);
    run->monitor_stop = true;
    pthread_cond_signal(&run->monitor_wake);
    pthread_mutex_unlock(&run->monitor_lock);
    pthread_join(run->monitor, NULL);
    run->monitoring = false;
}

/* --- The whole -------------------------------------------------------------------------------- */

/* Count what earlier launches have done as progress. */
static void count_before(struct run *run)
{
    if (board_scan(&run->work, &run->parts, NULL) < 0)
        return;
    for (size_t i = 0; i < run->parts.count; i++)
        if (run->parts.jobs[i].done) {
            run->report.before_documents += run->parts.jobs[i].documents;
            run->report.before_passed += input_plan_chunk_bytes(&run->plan, i);
        }
}

static int prepare(struct run *run, struct error *err)
{
    const struct preprocess_config *config = run->config;
    size_t start = 0;

    /* With a limit on documents the first chunks are needed first; otherwise each rank starts
     * elsewhere. */
    if (config->max_documents == 0)
        start =
            run->plan.chunk_count * (size_t)run->work.world->rank / (size_t)run->work.world->size;
    board_init(&run->parts, JOB_CHUNK, run->plan.chunk_count, start);
    /* Start large files that cannot be cut first. */
    if (config->max_documents == 0)
        run->parts.early_count =
            input_plan_large_chunks(&run->plan, config->chunk_bytes, &run->parts.early);
    run->encode.config = config;
    run->encode.plan = &run->plan;
    run->encode.work = &run->work;
    run->encode.board = &run->parts;
    run->encode.tokenizer = run->tokenizer;
    run->encode.punkt = run->punkt;
    run->encode.threads = config->threads > 0 ? (size_t)config->threads : (size_t)cpuset_usable();
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
    if (!run->config->append_eod || tokenizer_eod(run->tokenizer) >= 0)
        return 0;
    error_set_code(err, ERROR_USAGE, "this tokenizer has no end-of-document token to append");
    return error_append(err, "; use --no-append-eod");
}

static int open_punkt(struct run *run, struct error *err)
{
    if (!run->config->punkt)
        return 0;
    errno = 0;
    run->punkt = punkt_open(run->config->punkt, err);
    if (run->punkt)
        return 0;
    return file_path_error(err);
}

static int make_dictionary(const struct run *run, struct error *err)
{
    int made;

    if (dictionary_make(run->config, &made, err) < 0)
        return -1;
    if (made)
        printf("Wrote the dictionary %s\n", run->config->dictionary);
    return 0;
}

static int run_all(struct run *run, struct error *err)
{
    double started = clock_now();
    int rc;

    if (disk_check_directory(run->config->output_prefix, err) < 0)
        return -1;
    if (run->config->dictionary && make_dictionary(run, err) < 0)
        return -1;
    errno = 0;
    run->tokenizer = tokenizer_create(&run->config->tokenizer, err);
    if (!run->tokenizer)
        return file_path_error(err);
    if (check_tokenizer(run, err) < 0 || open_punkt(run, err) < 0)
        return -1;
    if (run->work.world->rank == 0) {
        rc = begin(run, err);
        if (rc < 0)
            return -1;
        if (rc == WORK_COMPLETE) {
            printf("Already complete: %s\n", run->config->output_prefix);
            return work_finish(&run->work, err);
        }
        if (rc == WORK_RESUMED)
            printf("Resuming the run in %s\n", run->work.root);
    } else {
        rc = work_await(&run->work, &run->plan, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    if (prepare(run, err) < 0)
        return -1;
    report_init(&run->report);
    if (run->work.world->rank == 0) {
        if (run->plan.files.count > INPUT_PLAN_NAMED_FILES)
            printf("Opening %zu files\n", run->plan.files.count);
        printf("Time to startup: %.6g\n", clock_now() - started);
    }
    fflush(stdout);
    run->monitoring = pthread_create(&run->monitor, NULL, monitor, run) == 0;
    return run_phases(run, err);
}

static void clean_up(struct run *run)
{
    run_drop_layout(run);
    board_clear(&run->parts);
    board_clear(&run->copies);
    board_clear(&run->single);
    encode_close(&run->encode);
    input_plan_clear(&run->plan);
    tokenizer_destroy(run->tokenizer);
    punkt_close(run->punkt);
    pthread_mutex_destroy(&run->redo_lock);
    pthread_mutex_destroy(&run->monitor_lock);
    pthread_cond_destroy(&run->monitor_wake);
}

/* Did the other ranks finish without this one, which was slow to sync or to see the end, and remove
 * the directory? Then the output exists at its full size. */
static bool was_finished(struct run *run)
{
    struct error ignored;

    file_refresh_directory(run->work.root);
    return run->assembling && work_was_removed(&run->work) &&
           assembly_finish(&run->assembly, &ignored) == 0;
}

/* Many threads have chunks, parts and shards open at the same time. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int preprocess(const struct preprocess_config *config, const struct world *world, struct error *err)
{
    struct run run = {.config = config};
    int rc;

    raise_descriptors();
    pthread_mutex_init(&run.redo_lock, NULL);
    pthread_mutex_init(&run.monitor_lock, NULL);
    pthread_cond_init(&run.monitor_wake, NULL);
    if (work_init(&run.work, config->output_prefix, world, config->lease, err) < 0)
        return -1;
    rc = run_all(&run, err);
    run_stop_monitor(&run);
    report_pause(&run.report);
    if (rc < 0 && was_finished(&run)) {
        work_acknowledge(&run.work, true);
        rc = 0;
    } else {
        /* Before a run has begun, there may be parts of an earlier one, which a corrected command
         * line continues; with --strict, a corrected input does. */
        rc = work_close(&run.work, rc, run.work.base[0] && !config->strict, err);
    }
    clean_up(&run);
    return rc;
}

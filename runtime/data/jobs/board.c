/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "board.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A fraction of the shortest lease, one second. */
static const double TOUCH_SECONDS = 0.25;

void board_init(struct board *board, enum job_kind kind, size_t count, size_t start)
{
    board->kind = kind;
    board->count = count;
    board->cursor = count ? start % count : 0;
    board->jobs = xcalloc(count + 1, sizeof(*board->jobs));
    for (size_t i = 0; i < count; i++)
        board->jobs[i].generation = -1;
    pthread_mutex_init(&board->lock, NULL);
}

void board_clear(struct board *board)
{
    if (board->jobs)
        pthread_mutex_destroy(&board->lock);
    free(board->jobs);
    free(board->early);
    memset(board, 0, sizeof(*board));
}

static int claim_path(const struct work *work, const struct board *board, size_t number,
                      int generation, char *path, struct error *err)
{
    return disk_path(path, err, "%.3900s/claim-%s-%c-%zu-%d", work->base, work->launch, board->kind,
                     number, generation);
}

static void read_entry(const struct work *work, struct board *board, const char *name)
{
    char launch[24], kind;
    size_t number;
    int generation;
    int64_t documents, bytes;
    struct job_state *job;

    if (board->kind == JOB_CHUNK &&
        sscanf(name, "part-%zu-%" SCNd64 "-%" SCNd64, &number, &documents, &bytes) == 3 &&
        number < board->count) {
        job = &board->jobs[number];
        job->done = 1;
        job->documents = documents;
        job->bytes = bytes;
    } else if (board->kind == JOB_MARKED && sscanf(name, "copied-%zu", &number) == 1 &&
               number < board->count) {
        board->jobs[number].done = 1;
    } else if (board->kind == JOB_LAYOUT && strcmp(name, "layout") == 0) {
        board->jobs[0].done = 1;
    } else if (sscanf(name, "claim-%16[0-9a-f]-%c-%zu-%d", launch, &kind, &number, &generation) ==
                   4 &&
               strcmp(launch, work->launch) == 0 && kind == (char)board->kind &&
               number < board->count) {
        job = &board->jobs[number];
        if (generation > job->generation)
            job->generation = (int16_t)generation;
    }
}

int64_t board_scan(struct work *work, struct board *board, struct error *err)
{
    DIR *directory = opendir(work->base);
    struct dirent *entry;
    int64_t left = 0;

    if (!directory)
        return work_set_gone(work, err);
    pthread_mutex_lock(&board->lock);
    while ((entry = readdir(directory)))
        read_entry(work, board, entry->d_name);
    for (size_t i = 0; i < board->count; i++)
        left += !board->jobs[i].done;
    pthread_mutex_unlock(&board->lock);
    closedir(directory);
    return left;
}

size_t board_prefix(struct board *board, int64_t documents)
{
    size_t count = 0;

    pthread_mutex_lock(&board->lock);
    while (documents > 0 && count < board->count && board->jobs[count].done)
        documents -= board->jobs[count++].documents;
    pthread_mutex_unlock(&board->lock);
    return documents > 0 ? 0 : count;
}

/* Returns 1, 0 if another process was first, or -1. */
static int create_claim(struct work *work, struct board *board, size_t number, int generation,
                        struct error *err)
{
    char path[DISK_PATH];
    int fd;

    if (work->world->size > 1) {
        if (claim_path(work, board, number, generation, path, err) < 0)
            return -1;
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) {
            if (board->jobs[number].generation < generation)
                board->jobs[number].generation = (int16_t)generation;
            return 0;
        }
        if (fd < 0 && errno == ENOENT)
            return work_set_gone(work, err);
        if (fd < 0)
            return error_set_errno(err, errno, "cannot create %s", path);
        close(fd);
    }
    board->jobs[number].mine = 1;
    board->jobs[number].generation = (int16_t)generation;
    return 1;
}

static bool is_free(const struct job_state *job)
{
    return !job->done && !job->mine && job->generation < 0;
}

int board_claim(struct work *work, struct board *board, size_t *number, struct error *err)
{
    int misses = 0, rc = 0;

    pthread_mutex_lock(&board->lock);
    while (rc == 0 && board->early_at < board->early_count) {
        *number = board->early[board->early_at++];
        if (is_free(&board->jobs[*number]))
            rc = create_claim(work, board, *number, 0, err);
    }
    for (size_t tried = 0; tried < board->count && rc == 0; tried++) {
        size_t at = board->cursor;
        struct job_state *job = &board->jobs[at];

        board->cursor = (at + 1) % board->count;
        if (!is_free(job))
            continue;
        rc = create_claim(work, board, at, 0, err);
        *number = at;
        /* Another rank is claiming in this range: rescanning the directory is cheaper than trying
         * on. */
        if (rc == 0 && ++misses == 8) {
            misses = 0;
            pthread_mutex_unlock(&board->lock);
            if (board_scan(work, board, err) < 0)
                return -1;
            pthread_mutex_lock(&board->lock);
        }
    }
    pthread_mutex_unlock(&board->lock);
    return rc;
}

/* Has the claim not grown for the time of the lease? */
static bool is_stale(struct work *work, struct board *board, size_t number)
{
    struct job_state *job = &board->jobs[number];
    char path[DISK_PATH];
    struct stat status;
    double now = clock_now();

    if (claim_path(work, board, number, job->generation, path, NULL) < 0 || stat(path, &status) < 0)
        return false;
    if (job->seen_at == 0 || job->seen != status.st_size) {
        job->seen = status.st_size;
        job->seen_at = now;
        return false;
    }
    return now - job->seen_at > (double)work->lease;
}

int board_take_over(struct work *work, struct board *board, size_t *number, struct error *err)
{
    int rc = 0;

    pthread_mutex_lock(&board->lock);
    for (size_t i = 0, looked = 0; i < board->count && looked < 64 && rc == 0; i++) {
        size_t at = (board->cursor + i) % board->count;
        struct job_state *job = &board->jobs[at];

        if (job->done || job->mine || job->generation < 0)
            continue;
        looked++;
        if (!is_stale(work, board, at))
            continue;
        rc = create_claim(work, board, at, job->generation + 1, err);
        job->seen_at = 0;
        *number = at;
    }
    pthread_mutex_unlock(&board->lock);
    return rc;
}

void board_touch(struct work *work, struct board *board, size_t number)
{
    char path[DISK_PATH];
    int fd;

    if (work->world->size == 1 ||
        claim_path(work, board, number, board->jobs[number].generation, path, NULL) < 0)
        return;
    /* On NFS the close makes the new size visible to other nodes. */
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, ".", 1) != 1)
            errno = 0;
        close(fd);
    }
}

void board_touch_often(struct work *work, struct board *board, size_t number)
{
    struct job_state *job = &board->jobs[number];

    if (clock_now() - job->seen_at < TOUCH_SECONDS)
        return;
    board_touch(work, board, number);
    job->seen_at = clock_now();
}

void board_touch_mine(struct work *work, struct board *board)
{
    double now = clock_now();
    int due;

    pthread_mutex_lock(&board->lock);
    due = now - board->touched > (double)work->lease / 4;
    if (due)
        board->touched = now;
    for (size_t i = 0; due && i < board->count; i++)
        if (board->jobs[i].mine && !board->jobs[i].done) {
            pthread_mutex_unlock(&board->lock);
            board_touch(work, board, i);
            pthread_mutex_lock(&board->lock);
        }
    pthread_mutex_unlock(&board->lock);
}

bool board_done_up_to(struct board *board, size_t number)
{
    size_t count = 0;

    pthread_mutex_lock(&board->lock);
    while (count < board->count && count < number && board->jobs[count].done)
        count++;
    pthread_mutex_unlock(&board->lock);
    return count == number;
}

bool board_is_done(struct board *board, size_t number)
{
    bool done;

    pthread_mutex_lock(&board->lock);
    done = board->jobs[number].done;
    pthread_mutex_unlock(&board->lock);
    return done;
}

void board_done(struct board *board, size_t number, int64_t documents, int64_t bytes)
{
    struct job_state *job = &board->jobs[number];

    pthread_mutex_lock(&board->lock);
    job->done = job->made = 1;
    job->documents = documents;
    job->bytes = bytes;
    pthread_mutex_unlock(&board->lock);
}

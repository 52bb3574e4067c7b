/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "board.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int board_init(struct board *board, const struct work *work, const char *phase, size_t count,
               size_t start, struct error *err)
{
    board->work = work;
    board->count = count;
    board->cursor = count ? start % count : 0;
    board->jobs = xcalloc(count + 1, sizeof(*board->jobs));
    for (size_t i = 0; i < count; i++)
        board->jobs[i].generation = -1;
    pthread_mutex_init(&board->lock, NULL);
    if (disk_path(board->directory, err, "%.3900s/%s", work->base, phase) < 0)
        return -1;
    if (mkdir(board->directory, 0777) < 0 && errno != EEXIST)
        return errno == ENOENT
                   ? work_set_gone(work, err)
                   : error_set_errno(err, errno, "cannot create directory %s", board->directory);
    return 0;
}

void board_clear(struct board *board)
{
    if (board->jobs)
        pthread_mutex_destroy(&board->lock);
    free(board->jobs);
    memset(board, 0, sizeof(*board));
}

static int claim_path(const struct board *board, size_t number, int generation, char *path,
                      struct error *err)
{
    return disk_path(path, err, "%.4000s/claim-%s-%zu-%d", board->directory, board->work->launch,
                     number, generation);
}

/* Names must match to their end: while a done marker is written, it has a temporary name. */
static void read_entry(struct board *board, const char *name)
{
    char launch[24];
    size_t number;
    int generation, end = 0;
    int64_t documents, bytes;

    if (sscanf(name, "done-%zu-%" SCNd64 "-%" SCNd64 "%n", &number, &documents, &bytes, &end) ==
            3 &&
        name[end] == '\0' && number < board->count) {
        struct job_state *job = &board->jobs[number];

        job->done = true;
        job->documents = documents;
        job->bytes = bytes;
    } else if (sscanf(name, "claim-%16[0-9a-f]-%zu-%d%n", launch, &number, &generation, &end) ==
                   3 &&
               name[end] == '\0' && strcmp(launch, board->work->launch) == 0 &&
               number < board->count && generation > board->jobs[number].generation) {
        board->jobs[number].generation = (int16_t)generation;
    }
}

int64_t board_scan(struct board *board, struct error *err)
{
    DIR *directory = opendir(board->directory);
    struct dirent *entry;
    int64_t left = 0;

    if (!directory)
        return work_set_gone(board->work, err);
    pthread_mutex_lock(&board->lock);
    while ((entry = readdir(directory)))
        read_entry(board, entry->d_name);
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

/* Returns 1, 0 if another process was first, or -1. */
static int create_claim(struct board *board, size_t number, int generation, struct error *err)
{
    char path[DISK_PATH];
    int fd;

    if (board->work->world->size > 1) {
        if (claim_path(board, number, generation, path, err) < 0)
            return -1;
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) {
            if (board->jobs[number].generation < generation)
                board->jobs[number].generation = (int16_t)generation;
            return 0;
        }
        if (fd < 0 && errno == ENOENT)
            return work_set_gone(board->work, err);
        if (fd < 0)
            return error_set_errno(err, errno, "cannot create %s", path);
        close(fd);
    }
    board->jobs[number].mine = true;
    board->jobs[number].generation = (int16_t)generation;
    return 1;
}

static bool is_free(const struct job_state *job)
{
    return !job->done && !job->mine && job->generation < 0;
}

int board_claim(struct board *board, size_t *number, struct error *err)
{
    int misses = 0, rc = 0;

    pthread_mutex_lock(&board->lock);
    while (rc == 0 && board->early_at < board->early_count) {
        *number = board->early[board->early_at++];
        if (is_free(&board->jobs[*number]))
            rc = create_claim(board, *number, 0, err);
    }
    for (size_t tried = 0; tried < board->count && rc == 0; tried++) {
        size_t at = board->cursor;

        board->cursor = (at + 1) % board->count;
        if (!is_free(&board->jobs[at]))
            continue;
        rc = create_claim(board, at, 0, err);
        *number = at;
        /* Another rank is claiming in this range: rescanning the directory is cheaper than trying
         * on. */
        if (rc == 0 && ++misses == 8) {
            misses = 0;
            pthread_mutex_unlock(&board->lock);
            if (board_scan(board, err) < 0)
                return -1;
            pthread_mutex_lock(&board->lock);
        }
    }
    pthread_mutex_unlock(&board->lock);
    return rc;
}

/* Has the claim not grown for the time of the lease? */
static bool is_stale(struct board *board, size_t number)
{
    struct job_state *job = &board->jobs[number];
    char path[DISK_PATH];
    struct stat status;
    double now = clock_now();

    if (claim_path(board, number, job->generation, path, NULL) < 0 || stat(path, &status) < 0)
        return false;
    if (job->seen_at == 0 || job->seen != status.st_size) {
        job->seen = status.st_size;
        job->seen_at = now;
        return false;
    }
    return now - job->seen_at > (double)board->work->lease;
}

int board_take_over(struct board *board, size_t *number, struct error *err)
{
    int rc = 0;

    pthread_mutex_lock(&board->lock);
    for (size_t i = 0, looked = 0; i < board->count && looked < 64 && rc == 0; i++) {
        size_t at = (board->cursor + i) % board->count;
        struct job_state *job = &board->jobs[at];

        if (job->done || job->mine || job->generation < 0)
            continue;
        looked++;
        if (!is_stale(board, at))
            continue;
        rc = create_claim(board, at, job->generation + 1, err);
        job->seen_at = 0;
        *number = at;
    }
    pthread_mutex_unlock(&board->lock);
    return rc;
}

void board_touch(struct board *board, size_t number)
{
    struct job_state *job = &board->jobs[number];
    double now = clock_now();
    char path[DISK_PATH];
    int fd;

    if (board->work->world->size == 1 || now - job->seen_at < (double)board->work->lease / 15 ||
        claim_path(board, number, job->generation, path, NULL) < 0)
        return;
    /* On NFS the close makes the new size visible to other nodes. */
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, ".", 1) != 1)
            errno = 0;
        close(fd);
    }
    job->seen_at = now;
}

int board_done_path(struct board *board, size_t number, char *path, struct error *err)
{
    const struct job_state *job = &board->jobs[number];

    return disk_path(path, err, "%.4000s/done-%zu-%" PRId64 "-%" PRId64, board->directory, number,
                     job->documents, job->bytes);
}

int board_mark_done(struct board *board, size_t number, int64_t documents, int64_t bytes,
                    struct bytes *result, struct error *err)
{
    struct job_state *job = &board->jobs[number];
    char path[DISK_PATH];
    int fd;

    pthread_mutex_lock(&board->lock);
    job->documents = documents;
    job->bytes = bytes;
    pthread_mutex_unlock(&board->lock);
    if (board_done_path(board, number, path, err) < 0)
        return -1;
    if (result) {
        /* The first result stays: a second one is the same, unless it names files of its own. */
        if (bytes_save(result, path, 1, err) < 0)
            return -1;
    } else {
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 && errno == ENOENT)
            return work_set_gone(board->work, err);
        if (fd < 0)
            return error_set_errno(err, errno, "cannot create %s", path);
        close(fd);
    }
    pthread_mutex_lock(&board->lock);
    job->done = true;
    pthread_mutex_unlock(&board->lock);
    return 0;
}

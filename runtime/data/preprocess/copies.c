/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "run.h"
#include "base/core/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* A part is damaged: encode its chunk again, one thread at a time. */
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

/* Keep the claims alive: a copy is not done until it is on disk. */
static void touch_copies(void *context)
{
    struct run *run = context;

    board_touch_mine(&run->work, &run->copies);
}

static int copy_group(struct run *run, size_t job, struct error *err)
{
    for (size_t c = run->layout.groups[job]; c < run->layout.groups[job + 1]; c++) {
        int rc = assembly_copy(&run->assembly, c, err);

        if (rc > 0)
            rc = redo_chunk(run, c, err) < 0 ? -1 : assembly_copy(&run->assembly, c, err);
        if (rc > 0)
            return error_set(err,
                             "the part of chunk %zu is damaged again; check the disk (dmesg), or "
                             "write to another file system",
                             c);
        if (rc < 0)
            return -1;
        touch_copies(run);
    }
    return 0;
}

struct copying {
    struct run *run;
    const size_t *first; /* a job that is already claimed; or NULL */
};

/* Worker thread: copies until no job is free. */
static int copy_jobs(void *context, int64_t thread, struct error *err)
{
    const struct copying *copying = context;
    struct run *run = copying->run;
    const size_t *first = thread == 0 ? copying->first : NULL;
    int rc = 1;

    while (rc > 0 && !run->encode.stop) {
        size_t job;

        if (first) {
            job = *first;
            first = NULL;
        } else {
            rc = board_claim(&run->work, &run->copies, &job, err);
        }
        if (rc > 0 && copy_group(run, job, err) < 0)
            rc = -1;
    }
    return rc < 0 ? -1 : 0;
}

static void remove_parts(struct run *run, size_t job)
{
    char path[DISK_PATH];

    for (size_t c = run->layout.groups[job]; c < run->layout.groups[job + 1]; c++) {
        const struct job_state *part = &run->parts.jobs[c];

        if (work_part_path(&run->work, c, part->documents, part->bytes, path, NULL) == 0)
            unlink(path);
    }
}

/* Sync the copies, create the done markers of this rank's jobs, and when the markers are on disk,
 * remove the parts. */
static int mark_copied(struct run *run, struct error *err)
{
    size_t marked = 0;

    if (assembly_sync(&run->assembly, touch_copies, run, err) < 0)
        return -1;
    for (size_t i = 0; i < run->copies.count; i++) {
        if (!run->copies.jobs[i].mine || run->copies.jobs[i].done)
            continue;
        if (work_mark_done(&run->work, i, err) < 0)
            return -1;
        marked++;
    }
    if (marked > 0 && file_sync_directory(run->work.base, err) < 0)
        return -1;
    for (size_t i = 0; i < run->copies.count; i++)
        if (run->copies.jobs[i].mine && !run->copies.jobs[i].done) {
            board_done(&run->copies, i, 0, 0);
            remove_parts(run, i);
        }
    return 0;
}

static int copy_all(struct run *run, const size_t *first, struct error *err)
{
    int threads = run->encode.threads < 16 ? (int)run->encode.threads : 16;
    struct copying copying = {run, first};

    return threads_loop(threads, threads, copy_jobs, &copying, err) < 0 ? -1
                                                                        : mark_copied(run, err);
}

int run_copies(struct run *run, struct error *err)
{
    double pause = 0.02;
    const size_t *first = NULL;
    size_t number;

    for (;;) {
        int64_t left;
        int rc;

        /* Another rank may have taken over the copies of this one. */
        if (copy_all(run, first, err) < 0)
            return assembly_is_finishing(&run->assembly) ? 0 : -1;
        first = NULL;
        left = board_scan(&run->work, &run->copies, err);
        if (left < 0)
            return -1;
        if (left == 0 || run_is_over(run))
            return 0;
        rc = board_take_over(&run->work, &run->copies, &number, err);
        if (rc < 0)
            return -1;
        if (rc > 0)
            first = &number;
        else
            run_wait(run, &pause);
    }
}

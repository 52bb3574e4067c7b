/* SPDX-License-Identifier: Apache-2.0 */
/* Concatenates parts into one file. The offset of each part follows from the sizes of the parts
 * before it, so ranks copy them in any order. */
#include "config.h"
#include "lines.h"
#include "data/jobs/disk.h"
#include "lib/file.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_SIZE = 4 << 20 };

struct join {
    struct jobs *engine;
    const char *phase, *name;
    const int64_t *sizes, *places;
    char path[DISK_PATH];
    size_t count;
};

static int copy_bytes(int from, int to, int64_t place, int64_t size, struct job *job,
                      const char *source, const char *target, struct error *err)
{
    char *buffer = xmalloc(COPY_SIZE);
    int64_t at = 0;
    int rc = 0;

    while (rc == 0 && at < size) {
        size_t part = size - at < COPY_SIZE ? (size_t)(size - at) : COPY_SIZE;

        rc = disk_pread(from, buffer, part, at, source, err);
        if (rc > 0)
            rc = error_set(err,
                           "%s ends early; remove the work directory that it is in, and run again",
                           source);
        if (rc == 0)
            rc = disk_pwrite(to, buffer, part, place + at, target, err);
        at += (int64_t)part;
        job_touch(job);
    }
    free(buffer);
    return rc;
}

/* The first job creates the file even if it is empty: once it is gone, it has its final name. */
static int join_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct join *join = context;
    int64_t size = join->count > 0 ? join->sizes[job->number] : 0;
    char path[DISK_PATH];
    int from = -1, to = open(join->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), rc = 0;

    bytes_put_u64(result, (uint64_t)size);
    if (to < 0)
        return error_set_errno(err, errno, "cannot open %s", join->path);
    if (size > 0) {
        rc = jobs_path(join->engine, join->phase, join->name, job->number, path, err);
        from = rc == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (rc == 0 && from < 0)
            rc = error_set_errno(err, errno, "cannot open %s", path);
        if (rc == 0)
            rc = copy_bytes(from, to, join->places[job->number], size, job, path, join->path, err);
    }
    if (rc == 0 && fdatasync(to) < 0)
        rc = error_set_errno(err, errno, "cannot write %s", join->path);
    if (close(to) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write %s", join->path);
    if (from >= 0)
        close(from);
    return rc;
}

static void join_after(void *context, struct job *job)
{
    const struct join *join = context;
    char path[DISK_PATH];

    if (jobs_path(join->engine, join->phase, join->name, job->number, path, NULL) == 0)
        unlink(path);
}

static int joined_path(const struct jobs *engine, const char *joined, char *path, struct error *err)
{
    return disk_path(path, err, "%.3900s/out-%s", engine->directory, joined);
}

int parts_join(struct jobs *engine, const char *phase, const char *name, size_t count,
               const int64_t *sizes, const char *joined, struct error *err)
{
    struct join join = {engine, phase, name, sizes, NULL, "", count};
    char title[64];
    struct phase jobs = {.name = title,
                         .count = count > 0 ? count : 1,
                         .context = &join,
                         .job = join_job,
                         .after = join_after};
    int64_t *places = xcalloc(count + 1, sizeof(*places));
    int rc;

    for (size_t i = 0; i < count; i++)
        places[i + 1] = places[i] + sizes[i];
    join.places = places;
    snprintf(title, sizeof(title), "join-%.40s", joined);
    rc = joined_path(engine, joined, join.path, err);
    if (rc == 0)
        rc = jobs_phase(engine, &jobs, err);
    free(places);
    return rc;
}

int parts_publish(struct jobs *engine, const char *joined, const char *path, struct error *err)
{
    char made[DISK_PATH];

    if (joined_path(engine, joined, made, err) < 0)
        return -1;
    /* A previous launch may have been killed between the renames of two outputs. */
    if (disk_is_gone(made) && disk_exists(path))
        return 0;
    if (rename(made, path) < 0)
        return error_set_errno(err, errno, "cannot rename %s to %s", made, path);
    return file_sync_parent(path, err);
}

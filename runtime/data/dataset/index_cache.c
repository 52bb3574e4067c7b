/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which process builds a file of the index cache, and how the others wait for it. */
#include "config.h"
#include "index_file.h"
#include "lib/checksum.h"
#include "lib/clock.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/heartbeat.h"
#include "lib/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/core/xmalloc.h"

enum { PATH_SIZE = 3072, NAME_SIZE = 256, LONGEST_DESCRIPTION = 7900 };
static const double BEAT_SECONDS = 2, STALE_SECONDS = 30;

/* The paths of one file in one directory. */
struct target {
    char directory[PATH_SIZE], path[PATH_SIZE + NAME_SIZE], lock[PATH_SIZE + NAME_SIZE + 8];
};

static int find_target(const struct index_request *request, const char *directory,
                       struct target *target, struct error *err)
{
    char hash[33], name[NAME_SIZE - 64];

    checksum_name(request->description, strlen(request->description), hash);
    if (snprintf(target->directory, PATH_SIZE, "%s", directory) >= PATH_SIZE - 1)
        return error_set(
            err, "%.64s...: the path of the index cache is too long; use a shorter one", directory);
    snprintf(name, sizeof(name), "%s-%.80s.index", hash, request->kind);
    snprintf(target->path, sizeof(target->path), "%s/%s", target->directory, name);
    snprintf(target->lock, sizeof(target->lock), "%s.lock", target->path);
    return 0;
}

/* The name of the draft that 'owner' writes. */
static void name_draft(const struct target *target, const char *owner, char draft[PATH_SIZE + 512])
{
    snprintf(draft, PATH_SIZE + 512, "%s.%.*s", target->path, (int)strcspn(owner, " \n/"), owner);
}

/* Write the file under a draft name and rename it. */
static int build(const struct index_request *request, const struct target *target,
                 const char *owner, struct error *err)
{
    char draft[PATH_SIZE + 512];
    struct index_writer *writer;
    int status = -1;

    name_draft(target, owner, draft);
    writer = index_writer_create(draft, request->description, err);
    if (!writer)
        return -1;
    if (request->build(request->arg, writer, err) < 0 || index_writer_finish(writer, err) < 0)
        goto done;
    if (rename(draft, target->path) < 0) {
        error_set_errno(err, errno, "cannot rename %s to %s", draft, target->path);
        goto done;
    }
    file_sync_directory(target->directory, NULL);
    status = 0;
done:
    index_writer_destroy(writer);
    if (status < 0)
        unlink(draft);
    return status;
}

/* While holding the lease: open the file, which the previous builder may have finished between our
 * lookup and our lease, or build it. */
static struct index_file *build_and_open(const struct index_request *request,
                                         const struct target *target, const char *owner,
                                         struct error *err)
{
    struct index_file *file = NULL;

    if (index_file_open(target->path, request->description, &file, err) == 0 && !file &&
        build(request, target, owner, err) == 0 &&
        index_file_open(target->path, request->description, &file, err) == 0 && !file)
        error_set(err,
                  "%s is incomplete right after it was written; another program may write to it: "
                  "remove it and run again",
                  target->path);
    return file;
}

/* Build while holding the lease. '*lost' is set if other processes assumed meanwhile that this one
 * was dead. */
static struct index_file *build_leased(const struct index_request *request,
                                       const struct target *target, struct lease *lease, int *lost,
                                       struct error *err)
{
    /* Without a thread there is no heartbeat: at worst another process builds the same file. */
    struct heartbeat *heartbeat = heartbeat_begin(lease, BEAT_SECONDS, NULL);
    struct index_file *file = build_and_open(request, target, lease->owner, err);

    heartbeat_end(heartbeat);
    *lost = lease_release(lease) < 0;
    return file;
}

/* Another process is building: wait briefly. Returns -1 when the deadline has passed. */
static int wait_turn(const struct index_request *request, const struct target *target,
                     const struct lease_watch *watch, double waited, double *pause,
                     struct error *err)
{
    if (waited > request->place->deadline)
        return error_set(err,
                         "timed out after %.0f s waiting for another process to create %s; %s is "
                         "held by (host,process,...) %.*s; if that is not running, remove the lock "
                         "file",
                         request->place->deadline, target->path, target->lock,
                         (int)strcspn(watch->seen, " \n"), watch->seen);
    clock_sleep_about(*pause);
    *pause = *pause < 0.5 ? *pause * 2 : 1;
    file_refresh_directory(target->directory);
    return 0;
}

/* Is errno 'number' a failure that another directory may not have? */
static int is_closed(int number)
{
    return number == EACCES || number == EPERM || number == EROFS || number == ENOENT ||
           number == ENOTDIR;
}

/* Remove the draft of a builder whose lease was broken. */
static void remove_draft(const struct target *target, struct lease_watch *watch)
{
    char draft[PATH_SIZE + 512];

    if (!watch->broken)
        return;
    watch->broken = 0;
    name_draft(target, watch->dead, draft);
    unlink(draft);
}

/* Get the file in one directory. '*closed' is set if nothing can be written there. */
static struct index_file *get_in(const struct index_request *request, const struct target *target,
                                 int *closed, struct error *err)
{
    double began = clock_now(), pause = 0.02;
    struct lease_watch watch = {0};
    struct index_file *file = NULL;
    struct lease lease;

    *closed = file_make_directories(target->directory, 0777) < 0;
    if (*closed) {
        error_set_errno(err, errno, "cannot create the directory %s", target->directory);
        return NULL;
    }
    for (;;) {
        int taken, lost;

        if (index_file_open(target->path, request->description, &file, err) < 0 || file)
            return file;
        taken = lease_take_shared(&lease, target->lock, STALE_SECONDS, &watch, err);
        if (taken < 0) {
            *closed = is_closed(errno);
            return NULL;
        }
        remove_draft(target, &watch);
        if (taken > 0) {
            file = build_leased(request, target, &lease, &lost, err);
            /* If this process was suspended for long, another one has taken over and removed its
             * draft. */
            if (!lost || file)
                return file;
        } else if (wait_turn(request, target, &watch, clock_now() - began, &pause, err) < 0) {
            return NULL;
        }
    }
}

struct index_file *index_file_get(const struct index_request *request, struct error *err)
{
    struct target *target = xcalloc(1, sizeof(*target));
    struct index_file *file = NULL;
    int closed = 1;

    if (strlen(request->description) > LONGEST_DESCRIPTION) {
        error_set(err, "%s: the path of the data is too long; use a shorter one", request->kind);
        goto done;
    }
    for (int i = 0; i < 2 && request->place->directories[i] && !file; i++) {
        struct error ignored;

        if (find_target(request, request->place->directories[i], target, err) < 0)
            goto done;
        index_file_open(target->path, request->description, &file, &ignored);
    }
    for (int i = 0; i < 2 && request->place->directories[i] && !file && closed; i++) {
        if (find_target(request, request->place->directories[i], target, err) < 0)
            goto done;
        file = get_in(request, target, &closed, err);
    }
    if (!file && closed) {
        error_prefix(err, "no writable directory for the index cache");
        if (err)
            err->code = ERROR_NO_CACHE;
    }
done:
    free(target);
    return file;
}

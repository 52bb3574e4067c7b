/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "lib/clock.h"
#include "cache.h"
#include "lib/checksum.h"
#include "shared_file.h"
#include "progress.h"
#include "lib/trusted.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often a waiting process checks whether it was stopped. */
static const double LOCK_LOOK_SECONDS = 0.1;

/* Remove the least recently used images until 'need' more bytes fit below 'limit' and on the disk.
 */
static int make_room(const struct image_cache *stage, int64_t limit, int64_t need,
                     struct error *err)
{
    struct image_entry *entries;
    int64_t total = 0, room;
    size_t count;
    int rc = 0;

    if (image_cache_list(stage, &entries, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        total += entries[i].size;
    for (size_t i = 0; i < count && rc == 0; i++) {
        room = file_free_space(stage->directory);
        if ((limit == 0 || total + need <= limit) && (need < room || room < 0))
            break;
        rc = image_entry_remove(stage, &entries[i], err);
        total -= entries[i].size;
    }
    free(entries);
    if (rc < 0)
        return -1;
    if (limit > 0 && total + need > limit)
        return error_set(err,
                         "an image of %" PRId64 " MB exceeds image_stage_max, %" PRId64
                         " MB; raise it in plugstack.conf",
                         need / 1000000, limit / 1000000);
    room = file_free_space(stage->directory);
    if (room >= 0 && need >= room)
        return error_set(err,
                         "not enough space in %.300s: %" PRId64 " MB needed, %" PRId64
                         " MB free; free space there",
                         stage->directory, need / 1000000, room / 1000000);
    return 0;
}

static int has_timed_out(const struct stage_request *request, double begun)
{
    return request->timeout > 0 && clock_now() - begun > request->timeout;
}

static int take_too_long(const struct stage_request *request, struct error *err)
{
    return error_set(
        err,
        "copying the image to %.300s took longer than %.0f seconds; check the load of its disk",
        request->directory, request->timeout);
}

/* A copy in progress. */
struct copy {
    const struct stage_request *request;
    int from, to;
    int64_t size, done;
    double begun, said;
    struct checksum sum;
};

/* Flush copied data to disk regularly, so that the final sync does not have to wait for all of it.
 */
static int copy_block(struct copy *copy, char *buffer, size_t length, struct error *err)
{
    const int64_t portion = 256 << 20;
    ssize_t got = pread(copy->from, buffer, length, copy->done);

    if (got < 0 && errno == EINTR)
        return 0;
    if (got == 0)
        errno = EIO;
    if (got <= 0 || file_write_at(copy->to, buffer, (size_t)got, copy->done) < 0 ||
        ((copy->done + got) / portion > copy->done / portion && fdatasync(copy->to) < 0))
        return error_set_errno(err, errno, "cannot copy %.300s to %.300s", copy->request->image,
                               copy->request->directory);
    checksum_add(&copy->sum, buffer, (size_t)got);
    copy->done += got;
    return 0;
}

static int copy_file(struct copy *copy, struct error *err)
{
    const size_t length = 1 << 20;
    char *buffer = xmalloc(length), line[256];
    int rc = 0;

    checksum_begin(&copy->sum);
    copy->begun = copy->said = clock_now();
    while (rc == 0 && copy->done < copy->size) {
        double now = clock_now();

        rc = copy_block(copy, buffer, length, err);
        if (rc == 0 && has_timed_out(copy->request, copy->begun))
            rc = take_too_long(copy->request, err);
        if (rc == 0 && is_stopped(copy->request->stop))
            rc = error_set(err, STOPPED);
        if (now - copy->said < PROGRESS_SECONDS)
            continue;
        copy->said = now;
        progress_of_bytes((double)copy->done, (double)copy->size, now - copy->begun, line,
                          sizeof(line));
        progress_say(copy->request->say, copy->request->argument, "copying the image to %.300s: %s",
                     copy->request->directory, line);
    }
    free(buffer);
    return rc;
}

static int copy_image(const struct stage_request *request, const struct image_cache *stage,
                      int from, char *path, size_t size, struct error *err)
{
    struct copy copy = {.request = request, .from = from};
    char name[IMAGE_KEY_SIZE + 16], draft[IMAGE_KEY_SIZE + 24];
    uint64_t checksum;
    struct stat info;
    int rc;

    if (fstat(from, &info) < 0)
        return error_set_errno(err, errno, "cannot read %.300s", request->image);
    if (make_room(stage, request->limit, info.st_size, err) < 0)
        return -1;
    copy.size = info.st_size;
    snprintf(name, sizeof(name), "%s.draft", request->key);
    snprintf(draft, sizeof(draft), "work/%s", name);
    copy.to = openat(stage->at, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (copy.to < 0)
        return error_set_errno(err, errno, "cannot write %.300s/%s", stage->directory, draft);
    rc = copy_file(&copy, err);
    close(copy.to);
    if (rc < 0) {
        unlinkat(stage->at, draft, 0);
        return -1;
    }
    checksum = checksum_end(&copy.sum);
    return image_cache_publish(stage, request->key, name, request->image, &checksum, path, size,
                               err);
}

/* Two jobs of a user may want one image on one node: one copies, the other waits. The directory is
 * node-local, so a lock works, and it ends with the process. */
static int lock(const struct stage_request *request, const struct image_cache *stage,
                struct error *err)
{
    double begun = clock_now(), said = begun;
    int guard = openat(stage->at, "work/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc;

    if (guard < 0)
        return error_set_errno(err, errno, "cannot write %.300s/work/lock", stage->directory);
    while ((rc = file_lock(guard, LOCK_LOOK_SECONDS)) > 0) {
        if (has_timed_out(request, begun) || is_stopped(request->stop)) {
            close(guard);
            return is_stopped(request->stop) ? error_set(err, STOPPED)
                                             : take_too_long(request, err);
        }
        if (clock_now() - said > PROGRESS_SECONDS) {
            said = clock_now();
            progress_say(request->say, request->argument,
                         "waiting for another job that copies the image to %.300s (%.0f s)",
                         request->directory, said - begun);
        }
    }
    if (rc < 0) {
        error_set_errno(err, errno, "cannot lock %.300s/work/lock", stage->directory);
        close(guard);
    }
    return rc < 0 ? -1 : guard;
}

/* The administrator's directory, and this user's directory 'own' in it, which another user may have
 * created first. */
static int check_directories(const char *directory, const char *own, struct error *err)
{
    int at = trusted_directory_open(AT_FDCWD, directory, TRUSTED_SHARED, err);

    if (at < 0) {
        error_prefix(err, "image_stage");
        return error_append(err, "; ask the administrator to correct it");
    }
    close(at);
    at = trusted_directory_open(AT_FDCWD, own, TRUSTED_PRIVATE, err);
    if (at < 0 && errno != ENOENT)
        return error_append(err, "; ask the administrator to remove it");
    if (at >= 0)
        close(at);
    return 0;
}

int image_stage(const struct stage_request *request, char *path, size_t size, struct error *err)
{
    /* The lock is exclusive, so unfinished files belong to killed processes. */
    static const char *const unfinished[] = {"%k.draft", "record@%o.new", NULL};
    char own[1024];
    struct image_cache stage;
    int guard, from, rc;

    snprintf(own, sizeof(own), "%.900s/%u", request->directory, (unsigned)geteuid());
    if (check_directories(request->directory, own, err) < 0 ||
        image_cache_open(&stage, own, err) < 0)
        return -1;
    guard = lock(request, &stage, err);
    if (guard < 0) {
        image_cache_close(&stage);
        return -1;
    }
    image_cache_remove(&stage, "work", unfinished, -1);
    rc = image_cache_find(&stage, request->key, path, size, err);
    from = rc == 1 ? -1 : open(request->image, O_RDONLY | O_CLOEXEC);
    if (rc != 1)
        rc = from < 0 ? error_set_errno(err, errno, "cannot open %.300s", request->image)
                      : copy_image(request, &stage, from, path, size, err);
    if (from >= 0)
        close(from);
    close(guard);
    image_cache_close(&stage);
    return rc < 0 ? -1 : 0;
}

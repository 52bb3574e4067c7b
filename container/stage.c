#include "stage.h"
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Remove the longest unused images until 'need' more bytes fit below 'limit' and on the disk. */
static int make_room(const struct image_cache *stage, int64_t limit, int64_t need,
                     struct error *err)
{
    struct image_entry *entries;
    struct statvfs disk;
    size_t count;
    int64_t total = 0;

    if (image_cache_list(stage, &entries, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        total += entries[i].size;
    for (size_t i = 0; i < count; i++) {
        int64_t room = statvfs(stage->directory, &disk) == 0
                           ? (int64_t)disk.f_bavail * (int64_t)disk.f_frsize
                           : INT64_MAX;

        if ((limit == 0 || total + need <= limit) && need < room)
            break;
        if (image_entry_remove(stage, &entries[i], err) < 0)
            break;
        total -= entries[i].size;
    }
    free(entries);
    if (limit > 0 && total + need > limit)
        return error_set(err, "an image of %" PRId64 " MB does not fit below image_stage_max",
                         need / 1000000);
    if (statvfs(stage->directory, &disk) == 0 &&
        need >= (int64_t)disk.f_bavail * (int64_t)disk.f_frsize)
        return error_set(err, "no room in %.300s: %" PRId64 " MB needed, %" PRId64 " MB free",
                         stage->directory, need / 1000000,
                         (int64_t)disk.f_bavail * (int64_t)disk.f_frsize / 1000000);
    return 0;
}

static int copy_file(int from, int to, int64_t size)
{
    off_t at = 0;

    while (at < size) {
        ssize_t sent = sendfile(to, from, &at, (size_t)(size - at));

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
    }
    return fsync(to);
}

static int copy_image(const struct image_cache *stage, int64_t limit, const char *key, int from,
                      const char *image, char *path, size_t size, struct error *err)
{
    char draft[4096];
    struct stat info;
    int to, rc;

    if (fstat(from, &info) < 0)
        return error_set_errno(err, errno, "cannot read %.300s", image);
    if (make_room(stage, limit, info.st_size, err) < 0)
        return -1;
    snprintf(draft, sizeof(draft), "%s/work/%s.draft", stage->directory, key);
    to = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    rc = to < 0 ? -1 : copy_file(from, to, info.st_size);
    if (rc < 0)
        error_set_errno(err, errno, "cannot copy %.300s to %.300s", image, stage->directory);
    if (to >= 0)
        close(to);
    if (rc < 0) {
        unlink(draft);
        return -1;
    }
    return image_cache_publish(stage, key, draft, image, path, size, err);
}

int image_stage(const char *directory, int64_t limit, const char *key, const char *image,
                char *path, size_t size, struct error *err)
{
    char own[1024], lock[2100];
    struct image_cache stage;
    struct stat place;
    int guard, from, rc;

    if (lstat(directory, &place) < 0)
        return error_set_errno(err, errno, "cannot use image_stage=%.300s", directory);
    if (!S_ISDIR(place.st_mode) || ((place.st_mode & 022) && !(place.st_mode & S_ISVTX)))
        return error_set(err,
                         "image_stage=%.300s is not used: others could exchange what is in it; "
                         "`chmod 1777` it",
                         directory);
    snprintf(own, sizeof(own), "%.900s/%u", directory, (unsigned)geteuid());
    if (image_cache_open(&stage, own, err) < 0)
        return -1;
    /* The directory is this node's own, so flock works; it goes with the process. */
    snprintf(lock, sizeof(lock), "%s/work/lock", own);
    guard = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (guard < 0 || flock(guard, LOCK_EX) < 0) {
        rc = error_set_errno(err, errno, "cannot lock %.300s", own);
    } else {
        rc = image_cache_find(&stage, key, path, size, err);
        from = rc == 1 ? -1 : open(image, O_RDONLY | O_CLOEXEC);
        if (rc != 1)
            rc = from < 0 ? error_set_errno(err, errno, "cannot open %.300s", image)
                          : copy_image(&stage, limit, key, from, image, path, size, err);
        if (from >= 0)
            close(from);
    }
    if (guard >= 0)
        close(guard);
    return rc < 0 ? -1 : 0;
}

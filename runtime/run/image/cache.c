/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"
#include "lib/file.h"
#include "cache_private.h"
#include "lib/checksum.h"
#include "shared_file.h"
#include "container/squashfs.h"
#include "container/sweep.h"
#include "lib/trusted.h"
#include "base/core/xmalloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int join(char *path, size_t size, const char *directory, const char *name,
                const char *ending)
{
    int length = snprintf(path, size, "%s/%s%s", directory, name, ending);

    return length < 0 || (size_t)length >= size ? -1 : 0;
}

/* A user's own cache, an administrator's cache, or a directory that contains the latter. */
enum directory_kind { OWN_CACHE, SHARED_CACHE, PARENT };

static int reject_owner(const char *what, enum directory_kind kind, uid_t owner, uid_t found,
                        struct error *err)
{
    if (kind == OWN_CACHE)
        return error_set(err,
                         "%s belongs to user %u, not to you; set MEGATRON_IMAGE_CACHE to a "
                         "directory of your own",
                         what, (unsigned)found);
    return error_set(err,
                     "%s%s belongs to user %u; only %s may own it; ask the administrator to "
                     "correct its owner (chown)",
                     what, kind == PARENT ? "," : "", (unsigned)found,
                     owner ? "the publisher of the images and root" : "root");
}

/* Open the directory 'path', which only 'owner' and root may be able to change. A parent is opened
 * even if it cannot be read. Returns a descriptor or -1. */
static int open_directory(const char *path, enum directory_kind kind, uid_t owner,
                          struct error *err)
{
    int fd = trusted_descriptor(AT_FDCWD, path), rc = -1;
    char what[400];
    struct stat info;

    snprintf(what, sizeof(what),
             kind == PARENT ? "%.300s, which contains the image cache" : "the image cache %.300s",
             path);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot use %s", what);
    if (fstat(fd, &info) < 0)
        error_set_errno(err, errno, "cannot use %s", what);
    else if (!S_ISDIR(info.st_mode))
        error_set(err, "%s%s is not a directory%s", what, kind == PARENT ? "," : "",
                  S_ISLNK(info.st_mode)
                      ? " but a symbolic link; name the directory that it points to"
                      : "; name another path");
    else if (info.st_uid != owner && info.st_uid != 0)
        reject_owner(what, kind, owner, info.st_uid, err);
    else if ((info.st_mode & 022) && !(kind == PARENT && (info.st_mode & S_ISVTX)))
        error_set(err, "other users can write to %s; run `chmod go-w` on it", what);
    else
        rc = 0;
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

int image_cache_reject(const struct image_cache *cache, struct error *err)
{
    error_set_errno(err, errno, "cannot write to the image cache %.300s", cache->directory);
    return error_append(err, "; set MEGATRON_IMAGE_CACHE to a directory that you can write to");
}

int image_cache_open(struct image_cache *cache, const char *directory, struct error *err)
{
    cache->owner = geteuid();
    cache->writable = 1;
    snprintf(cache->directory, sizeof(cache->directory), "%s", directory);
    cache->at = -1;
    if (shared_directory_create(directory, "MEGATRON_IMAGE_CACHE", err) < 0)
        return -1;
    if (trusted_parents(directory, err) < 0)
        return error_prefix(err, "cannot use the image cache %.300s", directory);
    cache->at = open_directory(directory, OWN_CACHE, cache->owner, err);
    if (cache->at >= 0 && image_cache_adopt(cache, err) < 0)
        image_cache_close(cache);
    return cache->at < 0 ? -1 : 0;
}

int image_cache_open_shared(struct image_cache *cache, const char *directory, uid_t publisher,
                            struct error *err)
{
    char path[2048];
    int parent;

    cache->owner = publisher;
    cache->writable = 0;
    snprintf(cache->directory, sizeof(cache->directory), "%s", directory);
    cache->at = open_directory(directory, SHARED_CACHE, publisher, err);
    snprintf(path, sizeof(path), "%s", directory);
    for (char *slash = strrchr(path, '/'); cache->at >= 0 && slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        parent = open_directory(path[0] ? path : "/", PARENT, publisher, err);
        if (parent < 0)
            image_cache_close(cache);
        else
            close(parent);
    }
    return cache->at < 0 ? -1 : 0;
}

void image_cache_close(struct image_cache *cache)
{
    if (cache->at >= 0)
        close(cache->at);
    cache->at = -1;
}

/* The name of a file of the cache. */
struct file_name {
    char text[IMAGE_KEY_SIZE + 8];
};

static struct file_name name_of(const char *key, const char *ending)
{
    struct file_name name;

    snprintf(name.text, sizeof(name.text), "%.*s%s", IMAGE_KEY_SIZE - 1, key, ending);
    return name;
}

int image_cache_find(const struct image_cache *cache, const char *key, char *path, size_t size,
                     struct error *err)
{
    struct file_name name = name_of(key, ".sqsh");
    struct stat info;
    int fd, rc;

    if (join(path, size, cache->directory, name.text, "") < 0)
        return error_set(
            err,
            "the path of the image cache is too long; set MEGATRON_IMAGE_CACHE to a shorter one");
    fd = openat(cache->at, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %.300s", path);
    if (fstat(fd, &info) < 0)
        rc = error_set_errno(err, errno, "cannot read %.300s", path);
    else if (info.st_uid != cache->owner && info.st_uid != 0)
        rc = error_set(err,
                       "%.300s belongs to user %u, whom this cache does not trust; ask the owner "
                       "of the cache to remove it",
                       path, (unsigned)info.st_uid);
    else
        rc = squashfs_check(fd, path, NULL, err) < 0 ? -1 : 1;
    /* Pruning uses the time of the last use; failing to set it is not an error. */
    if (rc == 1 && cache->writable)
        (void)!futimens(fd, NULL);
    close(fd);
    return rc;
}

/* Compute the checksum of the whole file, which was just written and is still in the page cache. */
static int sum_file(int fd, const char *path, uint64_t *checksum, struct error *err)
{
    const size_t length = 1 << 20;
    char *buffer = xmalloc(length);
    struct checksum sum;
    ssize_t got = 0;
    off_t at = 0;

    checksum_begin(&sum);
    while ((got = pread(fd, buffer, length, at)) > 0) {
        checksum_add(&sum, buffer, (size_t)got);
        at += got;
    }
    free(buffer);
    if (got < 0)
        return error_set_errno(err, errno, "cannot read %.300s", path);
    *checksum = checksum_end(&sum);
    return 0;
}

int image_cache_write(const struct image_cache *cache, const char *path, const char *text,
                      struct error *err)
{
    if (shared_file_replace(cache->at, path, "work", text, err) == 0)
        return 0;
    return error_prefix(err, "the image cache %.300s", cache->directory);
}

static int publish_open(const struct image_cache *cache, const char *key, const char *draft, int fd,
                        const char *origin, const uint64_t *known, const char *path,
                        struct error *err)
{
    char info[INFO_SIZE];
    uint64_t checksum = known ? *known : 0;
    int64_t size;

    if (squashfs_check(fd, draft, &size, err) < 0 ||
        (!known && sum_file(fd, draft, &checksum, err) < 0))
        return -1;
    if (fchmod(fd, 0600) < 0 || fsync(fd) < 0)
        return error_set_errno(err, errno, "cannot write %.300s", draft);
    snprintf(info, sizeof(info), "size %" PRId64 "\nxxh3 %016" PRIx64 "\norigin %s\n", size,
             checksum, origin);
    if (image_cache_write(cache, name_of(key, ".info").text, info, err) < 0)
        return -1;
    if (renameat(cache->at, draft, cache->at, name_of(key, ".sqsh").text) < 0)
        return error_set_errno(err, errno, "cannot rename the image to %.300s", path);
    (void)file_sync_directory(cache->directory, NULL);
    return 0;
}

int image_cache_publish(const struct image_cache *cache, const char *key, const char *name,
                        const char *origin, const uint64_t *known, char *path, size_t size,
                        struct error *err)
{
    char draft[NAME_MAX + 8];
    int fd, rc;

    snprintf(draft, sizeof(draft), "work/%.*s", NAME_MAX, name);
    fd = openat(cache->at, draft, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open the imported image %.300s/%s",
                               cache->directory, draft);
    if (join(path, size, cache->directory, key, ".sqsh") < 0)
        rc = error_set(
            err,
            "the path of the image cache is too long; set MEGATRON_IMAGE_CACHE to a shorter one");
    else
        rc = publish_open(cache, key, draft, fd, origin, known, path, err);
    close(fd);
    if (rc < 0)
        unlinkat(cache->at, draft, 0);
    return rc;
}

static void read_info(const struct image_cache *cache, struct image_entry *entry)
{
    char text[INFO_SIZE];
    const char *origin, *sum;

    if (shared_file_read(cache->at, name_of(entry->key, ".info").text, cache->owner, text,
                         sizeof(text)) < 0)
        return;
    if (sscanf(text, "size %" SCNd64, &entry->size) != 1)
        return;
    sum = strstr(text, "\nxxh3 ");
    if (sum)
        sscanf(sum, "\nxxh3 %" SCNx64, &entry->checksum);
    origin = strstr(text, "\norigin ");
    if (origin)
        snprintf(entry->origin, sizeof(entry->origin), "%.*s", (int)strcspn(origin + 8, "\n"),
                 origin + 8);
}

static bool is_entry_name(const char *name)
{
    return sweep_is_own(name, (const char *const[]){"%k.sqsh", NULL});
}

static void add_entry(const struct image_cache *cache, const char *name,
                      struct image_entry **entries, size_t *count)
{
    struct image_entry *entry;
    struct stat info;

    if (fstatat(cache->at, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    *entries = xrealloc(*entries, *count + 1, sizeof(**entries));
    entry = &(*entries)[(*count)++];
    memset(entry, 0, sizeof(*entry));
    snprintf(entry->key, sizeof(entry->key), "%.71s", name);
    join(entry->path, sizeof(entry->path), cache->directory, name, "");
    entry->size = info.st_size;
    /* A process with read-only access to a cache leaves no trace except the access time. */
    entry->used = info.st_atime > info.st_mtime ? info.st_atime : info.st_mtime;
    read_info(cache, entry);
}

static int older_first(const void *a, const void *b)
{
    int64_t x = ((const struct image_entry *)a)->used, y = ((const struct image_entry *)b)->used;

    return (x > y) - (x < y);
}

int image_cache_list(const struct image_cache *cache, struct image_entry **entries, size_t *count,
                     struct error *err)
{
    DIR *directory = sweep_list(cache->at, ".");
    struct dirent *item;

    *entries = NULL;
    *count = 0;
    if (!directory)
        return error_set_errno(err, errno, "cannot read the image cache %.300s", cache->directory);
    while ((item = readdir(directory)))
        if (is_entry_name(item->d_name))
            add_entry(cache, item->d_name, entries, count);
    closedir(directory);
    if (*count > 1)
        qsort(*entries, *count, sizeof(**entries), older_first);
    return 0;
}

int image_entry_verify(const struct image_cache *cache, const struct image_entry *entry,
                       struct error *err)
{
    struct file_name name = name_of(entry->key, ".sqsh");
    /* Verification does not count as a use, so do not update the access time; only the file's owner
     * may request that. */
    int fd = openat(cache->at, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
    uint64_t checksum;
    int64_t size;
    int rc;

    if (fd < 0 && errno == EPERM)
        fd = openat(cache->at, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %.300s", entry->path);
    rc = squashfs_check(fd, entry->path, &size, err);
    if (rc == 0 && entry->checksum == 0)
        rc = error_set(err, "%.300s has no record of its checksum; remove it and import it again",
                       entry->path);
    if (rc == 0 && size != entry->size)
        rc = error_set(
            err, "%.300s has %" PRId64 " bytes, not %" PRId64 "; remove it and import it again",
            entry->path, size, entry->size);
    if (rc == 0)
        rc = sum_file(fd, entry->path, &checksum, err);
    if (rc == 0 && checksum != entry->checksum)
        rc = error_set(
            err,
            "%.300s is damaged: its checksum differs from the recorded one; remove it and "
            "import it again",
            entry->path);
    close(fd);
    return rc;
}

int image_entry_remove(const struct image_cache *cache, const struct image_entry *entry,
                       struct error *err)
{
    if (unlinkat(cache->at, name_of(entry->key, ".sqsh").text, 0) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "cannot remove %.300s", entry->path);
    unlinkat(cache->at, name_of(entry->key, ".info").text, 0);
    return 0;
}

int image_cache_lease(const struct image_cache *cache, struct lease *lease, const char *path,
                      double patience, struct lease_watch *watch, struct error *err)
{
    int rc = lease_take(lease, cache->at, path, patience, watch, err);

    return rc < 0 ? error_prefix(err, "the image cache %.300s", cache->directory) : rc;
}

int image_cache_unfinished(const struct image_cache *cache, const char *name, char *path,
                           size_t size)
{
    char directory[2100];

    snprintf(directory, sizeof(directory), "%s/work", cache->directory);
    return join(path, size, directory, name, "");
}

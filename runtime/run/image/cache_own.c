/* SPDX-License-Identifier: Apache-2.0 */
/* What in a directory is this program's: a marker in the root says that it is a cache, and exact
 * names which files in it may be removed. */
#include "cache_private.h"
#include "base/core/storage.h"
#include "shared_file.h"
#include "container/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DAY = 86400 };

/* A directory itself, not what a symbolic link points to. */
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static const char *const records[] = {"%n", NULL};

/* The names at one level of a cache. */
struct level {
    const char *const *files;
    struct {
        const char *const *names;
        const struct level *level;
    } directories[4]; /* the last one has no level */
};

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct level record_level = {.files = records};
static const struct level job_level = {.files = NAMES(NULL),
                                       .directories = {{NAMES("%h"), &record_level}}};
static const struct level work_level = {.files = NAMES("%k@%o.draft", "%k.draft", "record@%o.new",
                                                       "lease@%o.new", "%k.lease", "%n.lease",
                                                       "step-%w.lease", "lock")};
static const struct level root_level = {.files = NAMES("%k.sqsh", "%k.info"),
                                        .directories = {{NAMES("names"), &record_level},
                                                        {NAMES("jobs"), &job_level},
                                                        {NAMES("work"), &work_level}}};

/* Entries that a file system makes by itself. They are not removed. */
static bool is_of_file_system(const char *name)
{
    static const char *const names[] = {".", "..", "lost+found", ".snapshot", ".snapshots", ".zfs"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, ".nfs", 4) == 0;
}

static int check_level(const struct image_cache *cache, DIR *listed, const char *place,
                       const struct level *level, struct error *err);

/* Check one entry of a level. */
static int check_entry(const struct image_cache *cache, int fd, const char *place, const char *name,
                       const struct level *level, struct error *err)
{
    char path[NAME_MAX + 32];
    struct stat info;

    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0
                               : error_set_errno(err, errno, "cannot read %.300s/%.300s%.300s",
                                                 cache->directory, place, name);
    if (S_ISREG(info.st_mode) && sweep_is_own(name, level->files))
        return 0;
    for (int i = 0; S_ISDIR(info.st_mode) && level->directories[i].level; i++)
        if (sweep_is_own(name, level->directories[i].names)) {
            snprintf(path, sizeof(path), "%s%s/", place, name);
            return check_level(cache, sweep_list(fd, name), path, level->directories[i].level, err);
        }
    error_set(err,
              "%.300s cannot be the image cache: it contains %.300s%.300s, which megatron did not "
              "create; move that away, or set MEGATRON_IMAGE_CACHE to a new directory",
              cache->directory, place, name);
    /* For file_path_error: this does not pass. */
    errno = 0;
    return -1;
}

/* Does the listed directory, which is closed, contain nothing but what this program creates?
 * 'place' is its path in the cache, "" or one that ends with a slash. Returns 0 or -1. */
static int check_level(const struct image_cache *cache, DIR *listed, const char *place,
                       const struct level *level, struct error *err)
{
    struct dirent *item;
    int rc = 0;

    if (!listed)
        return error_set_errno(err, errno, "cannot read %.300s/%s", cache->directory, place);
    while (rc == 0 && (item = readdir(listed)))
        if (!is_of_file_system(item->d_name) &&
            /* Another process may adopt it at the same time. */
            (level != &root_level || strcmp(item->d_name, CACHE_MARKER) != 0 ||
             !cache_is_marked(cache->at, cache->owner)))
            rc = check_entry(cache, dirfd(listed), place, item->d_name, level, err);
    closedir(listed);
    return rc;
}

int image_cache_adopt(const struct image_cache *cache, struct error *err)
{
    static const char *const parts[] = {"names", "jobs", "work"};
    bool marked = cache_is_marked(cache->at, cache->owner);

    if (!marked) {
        /* An NFS client may still think that there is none. */
        file_refresh_directory(cache->directory);
        marked = cache_is_marked(cache->at, cache->owner);
    }
    if (!marked && check_level(cache, sweep_list(cache->at, "."), "", &root_level, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (faccessat(cache->at, parts[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
            mkdirat(cache->at, parts[i], 0700) < 0 && errno != EEXIST)
            return image_cache_reject(cache, err);
    if (faccessat(cache->at, "work", W_OK, 0) < 0)
        return image_cache_reject(cache, err);
    return marked ? 0 : image_cache_write(cache, CACHE_MARKER, CACHE_MARKER_TEXT, err);
}

/* A record without an image. */
static bool is_orphan(const struct image_cache *cache, const char *name)
{
    char image[IMAGE_KEY_SIZE + 8];
    struct stat info;

    if (!sweep_is_own(name, NAMES("%k.info")) ||
        fstatat(cache->at, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode) ||
        time(NULL) - info.st_mtime <= DAY)
        return false;
    snprintf(image, sizeof(image), "%.*s.sqsh", (int)strcspn(name, "."), name);
    return faccessat(cache->at, image, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

void image_cache_sweep_unfinished(const struct image_cache *cache)
{
    cache_sweep_unfinished(cache->at);
}

void image_cache_sweep(const struct image_cache *cache)
{
    DIR *listed = sweep_list(cache->at, ".");
    struct dirent *item;

    while (listed && (item = readdir(listed)))
        if (is_orphan(cache, item->d_name))
            unlinkat(cache->at, item->d_name, 0);
    if (listed)
        closedir(listed);
    image_cache_sweep_unfinished(cache);
}

void image_cache_remove(const struct image_cache *cache, const char *part,
                        const char *const *patterns, time_t age)
{
    int fd = openat(cache->at, part, DIRECTORY);

    if (fd < 0)
        return;
    sweep_older(fd, patterns, age);
    close(fd);
}

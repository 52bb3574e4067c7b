/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a cache: which image a name referred to. */
#include "cache_private.h"
#include "base/core/storage.h"
#include "lib/checksum.h"
#include "shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOUR = 3600, JOB_SECONDS = 30 * 86400, RECORD_SIZE = INFO_SIZE + IMAGE_KEY_SIZE + 2 };

/* A path in the cache. */
struct record_path {
    char text[32];
};

/* Registry names contain slashes and may be long, so file names use a hash of them. */
static uint64_t number_of(const char *name)
{
    return checksum_of(name, strlen(name));
}

static struct record_path name_path(const char *name)
{
    struct record_path path;

    snprintf(path.text, sizeof(path.text), "names/%016" PRIx64, number_of(name));
    return path;
}

static int remember(const struct image_cache *cache, const char *path, const char *name,
                    const char *key, struct error *err)
{
    char text[RECORD_SIZE];

    snprintf(text, sizeof(text), "%s\n%s\n", key, name);
    return image_cache_write(cache, path, text, err);
}

static int recall(const struct image_cache *cache, const char *path, const char *name,
                  char key[IMAGE_KEY_SIZE])
{
    char text[RECORD_SIZE];
    char *newline, *rest;

    if (shared_file_read(cache->at, path, cache->owner, text, sizeof(text)) < 0)
        return -1;
    newline = strchr(text, '\n');
    if (!newline || newline - text >= IMAGE_KEY_SIZE)
        return -1;
    *newline = '\0';
    rest = newline + 1;
    rest[strcspn(rest, "\n")] = '\0';
    if (strcmp(rest, name) != 0)
        return -1;
    snprintf(key, IMAGE_KEY_SIZE, "%.*s", (int)(newline - text), text);
    return 0;
}

int image_cache_remember(const struct image_cache *cache, const char *name, const char *key,
                         struct error *err)
{
    return remember(cache, name_path(name).text, name, key, err);
}

int image_cache_recall(const struct image_cache *cache, const char *name, char key[IMAGE_KEY_SIZE])
{
    return recall(cache, name_path(name).text, name, key);
}

/* The record of a name in a job. A user may have had tens of thousands of jobs in a month, and a
 * thousand waiting nodes list the directory where the record will appear: use 256 directories. */
struct job_record {
    char name[INFO_SIZE];
    char directory[16], path[40];
};

static void find_record(const char *job, const char *name, struct job_record *record)
{
    uint64_t number;

    snprintf(record->name, sizeof(record->name), "%.500s %s", job, name);
    number = number_of(record->name);
    snprintf(record->directory, sizeof(record->directory), "jobs/%02x", (unsigned)(number >> 56));
    snprintf(record->path, sizeof(record->path), "%s/%016" PRIx64, record->directory, number);
}

int image_cache_remember_job(const struct image_cache *cache, const char *job, const char *name,
                             const char *key, struct error *err)
{
    static const char *const records[] = {"%n", NULL};
    struct job_record record;

    find_record(job, name, &record);
    if (mkdirat(cache->at, record.directory, 0700) < 0 && errno != EEXIST)
        return image_cache_reject(cache, err);
    image_cache_remove(cache, record.directory, records, JOB_SECONDS);
    return remember(cache, record.path, record.name, key, err);
}

int image_cache_recall_job(const struct image_cache *cache, const char *job, const char *name,
                           char key[IMAGE_KEY_SIZE])
{
    struct job_record record;
    struct stat info;

    find_record(job, name, &record);
    if (recall(cache, record.path, record.name, key) < 0)
        return -1;
    /* Update the time of the last use: a job's record is kept while the job has steps. */
    if (fstatat(cache->at, record.path, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - info.st_mtime > HOUR)
        (void)!utimensat(cache->at, record.path, NULL, AT_SYMLINK_NOFOLLOW);
    return 0;
}

void image_cache_refresh_job(const struct image_cache *cache, const char *job, const char *name)
{
    char path[sizeof(cache->directory) + 32];
    struct job_record record;

    find_record(job, name, &record);
    snprintf(path, sizeof(path), "%s/jobs", cache->directory);
    file_refresh_directory(path);
    snprintf(path, sizeof(path), "%s/%s", cache->directory, record.directory);
    file_refresh_directory(path);
}

void image_cache_forget_job(const struct image_cache *cache, const char *job, const char *name)
{
    struct job_record record;

    find_record(job, name, &record);
    unlinkat(cache->at, record.path, 0);
}

void image_cache_lease_job(const char *job, const char *name, char *path, size_t size)
{
    struct job_record record;

    find_record(job, name, &record);
    snprintf(path, size, "work/%.16s.lease", strrchr(record.path, '/') + 1);
}

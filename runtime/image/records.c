/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a cache: which image a name referred to. */
#include "cache_private.h"
#include "file.h"
#include "checksum.h"
#include "shared_file.h"
#include "sweep.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOUR = 3600, JOB_SECONDS = 30 * 86400, RECORD_SIZE = INFO_SIZE + IMAGE_KEY_SIZE + 2 };

/* Registry names contain slashes and may be long, so file names use a hash of them. */
static uint64_t number_of(const char *name)
{
    return checksum_of(name, strlen(name));
}

static int name_path(const struct image_cache *cache, const char *name, char *path, size_t size)
{
    return snprintf(path, size, "%s/names/%016" PRIx64, cache->directory, number_of(name)) <
                   (int)size
               ? 0
               : -1;
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

    if (shared_file_read(path, cache->owner, text, sizeof(text)) < 0)
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
    char path[4096];

    if (name_path(cache, name, path, sizeof(path)) < 0)
        return error_set(
            err,
            "the path of the image cache is too long; set MEGATRON_IMAGE_CACHE to a shorter one");
    return remember(cache, path, name, key, err);
}

int image_cache_recall(const struct image_cache *cache, const char *name, char key[IMAGE_KEY_SIZE])
{
    char path[4096];

    return name_path(cache, name, path, sizeof(path)) < 0 ? -1 : recall(cache, path, name, key);
}

/* The record of a name in a job. A user may have had tens of thousands of jobs in a month, and a
 * thousand waiting nodes list the directory where the record will appear: use 256 directories. */
struct job_record {
    char name[INFO_SIZE];
    char jobs[2100], directory[2110], path[2140];
};

static void find_record(const struct image_cache *cache, const char *job, const char *name,
                        struct job_record *record)
{
    uint64_t number;

    snprintf(record->name, sizeof(record->name), "%.500s %s", job, name);
    number = number_of(record->name);
    snprintf(record->jobs, sizeof(record->jobs), "%s/jobs", cache->directory);
    snprintf(record->directory, sizeof(record->directory), "%s/%02x", record->jobs,
             (unsigned)(number >> 56));
    snprintf(record->path, sizeof(record->path), "%s/%016" PRIx64, record->directory, number);
}

int image_cache_remember_job(const struct image_cache *cache, const char *job, const char *name,
                             const char *key, struct error *err)
{
    struct job_record record;

    find_record(cache, job, name, &record);
    if (shared_directory_create(record.directory, "MEGATRON_IMAGE_CACHE", err) < 0)
        return -1;
    sweep_older(record.directory, JOB_SECONDS);
    return remember(cache, record.path, record.name, key, err);
}

int image_cache_recall_job(const struct image_cache *cache, const char *job, const char *name,
                           char key[IMAGE_KEY_SIZE])
{
    struct job_record record;
    struct stat info;

    find_record(cache, job, name, &record);
    if (recall(cache, record.path, record.name, key) < 0)
        return -1;
    /* Update the time of the last use: a job's record is kept while the job has steps. */
    if (lstat(record.path, &info) == 0 && time(NULL) - info.st_mtime > HOUR)
        (void)!utimensat(AT_FDCWD, record.path, NULL, AT_SYMLINK_NOFOLLOW);
    return 0;
}

void image_cache_refresh_job(const struct image_cache *cache, const char *job, const char *name)
{
    struct job_record record;

    find_record(cache, job, name, &record);
    file_refresh_directory(record.jobs);
    file_refresh_directory(record.directory);
}

void image_cache_forget_job(const struct image_cache *cache, const char *job, const char *name)
{
    struct job_record record;

    find_record(cache, job, name, &record);
    unlink(record.path);
}

int image_cache_lease_job(const struct image_cache *cache, const char *job, const char *name,
                          char *path, size_t size)
{
    struct job_record record;
    char lease[32];

    find_record(cache, job, name, &record);
    snprintf(lease, sizeof(lease), "%.16s.lease", strrchr(record.path, '/') + 1);
    return image_cache_unfinished(cache, lease, path, size);
}

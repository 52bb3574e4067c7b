/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of images: squashfs files named by the digest of their source, in a shared directory.
 *
 *     DIR/.megatron-images   marks a cache of this program
 *     DIR/sha256-<digest>.sqsh   an image; complete as soon as it has this name
 *     DIR/sha256-<digest>.info   its size, checksum and origin
 *     DIR/names/<number>         the digest of a name when the registry was last asked
 *     DIR/jobs/<2 digits>/<number>   the digest of a name for the duration of a job
 *     DIR/work/                  leases and unfinished files
 *
 * Only its owner can write to a user's cache. An administrator's cache is read-only, and only
 * files of root or of the publisher are used. */
#ifndef MEGATRON_CACHE_H
#define MEGATRON_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include "container/cache_root.h"
#include "lib/error.h"
#include "lib/lease.h"
#include "container/reference.h"

struct image_cache {
    char directory[2048];
    int at;       /* the directory, opened and checked; all files are accessed relative to it */
    uid_t owner;  /* owner of its files; root may own them, too */
    int writable; /* the user's own */
};

struct image_entry {
    char key[IMAGE_KEY_SIZE];
    char path[4096];
    char origin[IMAGE_TEXT_SIZE]; /* the reference it was imported from; "" if unknown */
    int64_t size;
    int64_t used;      /* when it was last started or imported, seconds since 1970 */
    uint64_t checksum; /* 0 if unknown */
};

/* Open the cache of this user, and create it if it does not exist. Fails if another user owns it or
 * can write to it, and if a directory without the mark contains anything else than a cache: nothing
 * is ever removed that this program did not create. Returns 0 or -1. */
int image_cache_open(struct image_cache *cache, const char *directory, struct error *err);

/* Open an administrator's cache for reading. 'publisher' or root must own it, and no other user may
 * be able to write to it or to a parent directory. Returns 0 or -1. */
int image_cache_open_shared(struct image_cache *cache, const char *directory, uid_t publisher,
                            struct error *err);

void image_cache_close(struct image_cache *cache);

/* Look up 'key'. Returns 1 with the image's path, 0 if it is not cached, -1 if it is damaged or
 * belongs to another user. Counts as a use. */
int image_cache_find(const struct image_cache *cache, const char *key, char *path, size_t size,
                     struct error *err);

/* Add the finished image with the name 'name' in work/ to the cache: check it, record its size and
 * checksum (computed unless it is 'known'), fsync, rename. 'path' gets its path. Returns 0 or -1;
 * the draft is gone in both cases. */
int image_cache_publish(const struct image_cache *cache, const char *key, const char *name,
                        const char *origin, const uint64_t *known, char *path, size_t size,
                        struct error *err);

/* Record and look up the key of a name. The lookup returns 0, or -1 if there is no record, or only
 * one of another user. */
int image_cache_remember(const struct image_cache *cache, const char *name, const char *key,
                         struct error *err);
int image_cache_recall(const struct image_cache *cache, const char *name, char key[IMAGE_KEY_SIZE]);

/* The same for one job. Refresh to see what another node has just written; image_cache_lease_job
 * names the lease of the process that asks the registry for the job, relative to the cache. */
int image_cache_remember_job(const struct image_cache *cache, const char *job, const char *name,
                             const char *key, struct error *err);
int image_cache_recall_job(const struct image_cache *cache, const char *job, const char *name,
                           char key[IMAGE_KEY_SIZE]);
void image_cache_refresh_job(const struct image_cache *cache, const char *job, const char *name);
void image_cache_forget_job(const struct image_cache *cache, const char *job, const char *name);
void image_cache_lease_job(const char *job, const char *name, char *path, size_t size);

/* List all entries, least recently used first. The caller frees '*entries'. Returns 0 or -1. */
int image_cache_list(const struct image_cache *cache, struct image_entry **entries, size_t *count,
                     struct error *err);

/* Does the entry match its record: superblock, size, checksum? Returns 0 or -1. */
int image_entry_verify(const struct image_cache *cache, const struct image_entry *entry,
                       struct error *err);

/* Remove the entry and its record. Returns 0 or -1. */
int image_entry_remove(const struct image_cache *cache, const struct image_entry *entry,
                       struct error *err);

/* Like lease_take for 'path', which is relative to the cache. */
int image_cache_lease(const struct image_cache *cache, struct lease *lease, const char *path,
                      double patience, struct lease_watch *watch, struct error *err);

/* The path of the unfinished file 'name'. Returns 0, or -1 if it is too long. */
int image_cache_unfinished(const struct image_cache *cache, const char *name, char *path,
                           size_t size);

/* Remove unfinished files of killed processes. */
void image_cache_sweep_unfinished(const struct image_cache *cache);

/* Remove the files of the directory 'part' with the names 'patterns' (sweep.h) that have not
 * changed for 'age' seconds; -1: all. */
void image_cache_remove(const struct image_cache *cache, const char *part,
                        const char *const *patterns, time_t age);

/* Like image_cache_sweep_unfinished, and records without an image that are older than a day. */
void image_cache_sweep(const struct image_cache *cache);

#endif

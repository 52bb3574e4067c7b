/* The cache of images: squashfs files by the digest they were made from, on a shared directory.
 *
 *     DIR/sha256-<digest>.sqsh   an image, complete from the moment it has this name
 *     DIR/sha256-<digest>.info   its size, checksum and origin
 *     DIR/names/<number>         which digest a name of a registry stood for when it was last asked
 *     DIR/jobs/<2 digits>/<number>   which digest a name stands for throughout a job
 *     DIR/work/                  leases and whatever is unfinished
 *
 * A user's own cache belongs to him and nobody else can write there. An administrator's cache is
 * only read, and only what root or the named publisher owns counts. */
#ifndef MEGATRON_CACHE_H
#define MEGATRON_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "error.h"
#include "reference.h"

struct image_cache {
    char directory[2048];
    uid_t owner;  /* who must own what is in it */
    int writable; /* the user's own */
};

struct image_entry {
    char key[IMAGE_KEY_SIZE];
    char path[4096];
    char origin[IMAGE_TEXT_SIZE]; /* the reference it was imported from; "" where unknown */
    int64_t size;
    int64_t used;      /* when it was last started or imported, seconds since 1970 */
    uint64_t checksum; /* 0 where unknown */
};

/* Open (and make, where it is missing) the cache of the user running this process. Refused where
 * somebody else owns it or may write to it. Returns 0 or -1. */
int image_cache_open(struct image_cache *cache, const char *directory, struct error *err);

/* Open an administrator's cache for reading. 'publisher' or root must own it, and nobody else may
 * write to it or to a directory above it. Returns 0 or -1. */
int image_cache_open_shared(struct image_cache *cache, const char *directory, uid_t publisher,
                            struct error *err);

/* The user's cache where nothing else is said: $MEGATRON_IMAGE_CACHE, else
 * $XDG_CACHE_HOME/megatron/images, else HOME/.cache/megatron/images. Returns 0 or -1. */
int image_cache_default(const char *named, const char *cache_home, const char *home,
                        char *directory, size_t size, struct error *err);

/* Look 'key' up. Returns 1 with the image's path, 0 where it is not there, -1 where what is there
 * is damaged or somebody else's. Counts as a use. */
int image_cache_find(const struct image_cache *cache, const char *key, char *path, size_t size,
                     struct error *err);

/* Give the finished image 'draft' its name: check it, record size and checksum, fsync, rename.
 * 'path' gets the name. Returns 0 or -1; the draft is gone in both cases. */
int image_cache_publish(const struct image_cache *cache, const char *key, const char *draft,
                        const char *origin, char *path, size_t size, struct error *err);

/* The same where the checksum is known already. */
int image_cache_publish_summed(const struct image_cache *cache, const char *key, const char *draft,
                               const char *origin, uint64_t checksum, char *path, size_t size,
                               struct error *err);

/* Remember, and tell, the key that a name stood for. Recalling returns 0, or -1 where the name was
 * never seen, or somebody else wrote it down. */
int image_cache_remember(const struct image_cache *cache, const char *name, const char *key,
                         struct error *err);
int image_cache_recall(const struct image_cache *cache, const char *name, char key[IMAGE_KEY_SIZE]);

/* The same for one job. To refresh is to see what another node wrote just now; the name of its
 * lease is for who asks on behalf of the job. */
int image_cache_remember_job(const struct image_cache *cache, const char *job, const char *name,
                             const char *key, struct error *err);
int image_cache_recall_job(const struct image_cache *cache, const char *job, const char *name,
                           char key[IMAGE_KEY_SIZE]);
void image_cache_refresh_job(const struct image_cache *cache, const char *job, const char *name);
void image_cache_forget_job(const struct image_cache *cache, const char *job, const char *name);
int image_cache_lease_job(const struct image_cache *cache, const char *job, const char *name,
                          char *path, size_t size);

/* All entries, least recently used first. '*entries' is the caller's to free. Returns 0 or -1. */
int image_cache_list(const struct image_cache *cache, struct image_entry **entries, size_t *count,
                     struct error *err);

/* Is the entry what was published: superblock, size, checksum? Returns 0 or -1. */
int image_entry_verify(const struct image_entry *entry, struct error *err);

/* Remove the entry with all that belongs to it. Returns 0 or -1. */
int image_entry_remove(const struct image_cache *cache, const struct image_entry *entry,
                       struct error *err);

/* The path of 'name' among what is unfinished. Returns 0, or -1 where it is too long. */
int image_cache_unfinished(const struct image_cache *cache, const char *name, char *path,
                           size_t size);

/* Remove what killed processes left in the places of unfinished work. */
void image_cache_sweep_unfinished(const struct image_cache *cache);

/* The same, and records whose image never came, a day after they were written. */
void image_cache_sweep(const struct image_cache *cache);

#endif

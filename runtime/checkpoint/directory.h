/* The directory that holds checkpoints: iter_0000100/ and its like, and
 * latest_checkpointed_iteration.txt, which names one of them. Nothing here has a half-done state
 * under a final name: what is being written or removed is called iter_...tmp-... */
#ifndef MEGATRON_DIRECTORY_H
#define MEGATRON_DIRECTORY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "moved.h"

#define LATEST "latest_checkpointed_iteration.txt"

/* Format a path into 'out'; -1 with a sentence where it is too long. */
int directory_path(char out[PATH_MAX], struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Take the directory for a run that saves there: a descriptor to close at its end, or -1 where
 * another run holds it. The lock is the kernel's and ends with the process, however that ends; the
 * file .lock says whose it is. On a file system without locks 'unlocked' says so, and another run
 * may be there as well; else it is empty. */
int directory_lock(const char *path, struct error *unlocked, struct error *err);

/* Make 'path' and its parents where missing, and see that a file can be made in it. */
int directory_prepare(const char *path, struct error *err);

/* Is there something called 'name' in it? */
int directory_has(const char *path, const char *name);

/* The iteration that latest_checkpointed_iteration.txt names; -1: no such file, or no number in it.
 */
int64_t directory_latest(const char *path);

/* Iterations of all checkpoints there, newest first, as a list to free. Returns 0, or -1 with
 * errno. */
int directory_list(const char *path, int64_t **list, size_t *count, struct error *err);

/* The newest iteration there that is below 'below'; where that is negative, the one that
 * latest_checkpointed_iteration.txt names, or the newest of all. -1: none, also where there is no
 * such directory. Returns 0, or -1 with errno where it cannot be known. */
int directory_newest(const char *path, int64_t below, int64_t *iteration, struct error *err);

/* Write 'size' bytes to path/name: complete and on disk, or not at all. */
int directory_write(const char *path, const char *name, const void *bytes, size_t size,
                    struct error *err);

/* Give the complete checkpoint in 'temporary' its name, in place of an older one of that name, and
 * let latest_checkpointed_iteration.txt name it. Here and below 'moved' may be NULL. */
int directory_commit(const char *path, const char *temporary, int64_t iteration,
                     atomic_int_fast64_t *moved, struct error *err);

/* Remove a directory with all that is in it, but not what is mounted there, be it another file
 * system or a directory of the same one: that is not ours. What can be removed is, whatever cannot.
 */
int directory_remove(const char *path, atomic_int_fast64_t *moved, struct error *err);

/* Remove all checkpoints but the one that latest_... names, 'keep' - 1 before it, and those after
 * it, which are no part of what goes on from it. Without that file: all but the newest 'keep'.
 * 'removed' (may be NULL) counts them. Where one cannot be removed, the others are, and 'err' names
 * the first. */
int directory_prune(const char *path, int64_t keep, int *removed, atomic_int_fast64_t *moved,
                    struct error *err);

/* A run went back to 'iteration': let latest_... name that, and move what comes after it to a
 * directory of checkpoints of its own in 'path', which 'to' names then; empty: there was nothing.
 */
int directory_abandon(const char *path, int64_t iteration, char to[PATH_MAX], struct error *err);

/* Give a checkpoint that was being replaced its name back, where what was to replace it has not got
 * that: a save was killed between two renames, on a file system that cannot exchange names. */
int directory_restore(const char *path, struct error *err);

/* Remove what unfinished saves left behind: only for who holds the lock. The same holds for what
 * cannot be removed. */
int directory_clean(const char *path, struct error *err);

#endif

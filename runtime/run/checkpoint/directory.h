/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that contains checkpoints: iter_0000100/ etc., and
 * latest_checkpointed_iteration.txt, which names one of them. Nothing here is ever half-done under
 * a final name: what is being written or removed is called iter_...tmp-... */
#ifndef MEGATRON_DIRECTORY_H
#define MEGATRON_DIRECTORY_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include <stdatomic.h>

#define LATEST "latest_checkpointed_iteration.txt"

/* Format a path into 'out'; -1 with an error if it is too long. */
int directory_path(char out[PATH_MAX], struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Lock the directory for a run that saves there: returns a descriptor to close at its end, or -1 if
 * another run holds the lock. It is a kernel lock that ends with the process; the file .lock names
 * the owner. On a file system without locks 'unlocked' is an error text, and another run may be
 * there as well; otherwise it is empty. */
int directory_lock(const char *path, struct error *unlocked, struct error *err);

/* Create 'path' and its parents if missing, and check that a file can be created in it. */
int directory_prepare(const char *path, struct error *err);

/* Does it contain an entry called 'name'? */
int directory_has(const char *path, const char *name);

/* The iteration that latest_checkpointed_iteration.txt names; -1: no such file, or not a number. */
int64_t directory_latest(const char *path);

/* Iterations of all checkpoints there, newest first, as a list to free. Returns 0, or -1 with
 * errno. */
int directory_list(const char *path, int64_t **list, size_t *count, struct error *err);

/* The newest iteration there that is below 'below'; if that is negative, the one that
 * latest_checkpointed_iteration.txt names, or the newest of all. -1: none, also if there is no such
 * directory. Returns 0, or -1 with errno if it cannot be determined. */
int directory_newest(const char *path, int64_t below, int64_t *iteration, struct error *err);

/* Write 'size' bytes to path/name: complete and on disk, or not at all. */
int directory_write(const char *path, const char *name, const void *bytes, size_t size,
                    struct error *err);

/* Rename the complete checkpoint in 'temporary' to its final name, replacing an older one of that
 * name, and make latest_checkpointed_iteration.txt name it. Here and below 'moved' may be NULL. */
int directory_commit(const char *path, const char *temporary, int64_t iteration,
                     atomic_int_fast64_t *moved, struct error *err);

/* Remove a directory with everything in it, except what is mounted there, whether another file
 * system or a bind mount of the same one. What can be removed is removed, even if something else
 * cannot. */
int directory_remove(const char *path, atomic_int_fast64_t *moved, struct error *err);

/* Remove all checkpoints except the one that latest_... names, 'keep' - 1 before it, and those
 * after it, which do not belong to the run that resumes from it. Without that file: all but the
 * newest 'keep'. 'removed' (may be NULL) counts them. If one cannot be removed, the others are, and
 * 'err' names the first. */
int directory_prune(const char *path, int64_t keep, int *removed, atomic_int_fast64_t *moved,
                    struct error *err);

/* A run went back to 'iteration': make latest_... name it, and move the checkpoints after it to a
 * separate directory in 'path', returned in 'to'; empty: there were none. */
int directory_abandon(const char *path, int64_t iteration, char to[PATH_MAX], struct error *err);

/* Restore the name of a checkpoint that was being replaced if its replacement never got that name:
 * a save was killed between two renames, on a file system without atomic exchange. */
int directory_restore(const char *path, struct error *err);

/* Remove what unfinished saves left behind; call only while holding the lock. If one entry cannot
 * be removed, the others are, and 'err' names the first. */
int directory_clean(const char *path, struct error *err);

/* If 'directory' is or contains a Megatron-LM checkpoint, returns -1 with an error that says to
 * import it. Otherwise returns 0 and leaves 'err' unchanged. */
int directory_check_megatron(const char *directory, struct error *err);

/* Count a step; NULL: progress is not watched. */
static inline void moved_count(atomic_int_fast64_t *moved)
{
    if (moved)
        atomic_fetch_add(moved, 1);
}

#endif

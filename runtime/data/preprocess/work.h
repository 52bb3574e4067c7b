/* SPDX-License-Identifier: Apache-2.0 */
/* The work directory PREFIX.work: everything that ranks share and that survives them.
 *     go-LAUNCH              rank 0 has made the plan; contains its identity
 *     plan                   input_plan.h
 *     owner                  the launch that works here
 *     end-LAUNCH             how the launch ended; stays for ranks that arrive after the others
 *                            have finished
 *     ack-LAUNCH-RANK        this rank has read end-LAUNCH
 *     finished               the output of this identity is complete; only cleanup is left
 *     IDENTITY/part-...      a finished chunk; documents and bytes are in its name
 *     IDENTITY/claim-...     a rank of this launch works on a job
 *     IDENTITY/layout        output_layout.h
 *     IDENTITY/copied-...    a copy job whose bytes are on disk
 *     IDENTITY/front-...     front.h
 *     IDENTITY/out-...       the final files, until they are renamed
 * It uses only what every shared file system does well: exclusive creation, rename and listing a
 * directory. There are no locks and no messages between ranks, so there is nothing to recover, and
 * no rank is indispensable. Claims only save work: a rank that sees a claim make no progress for
 * the time of the lease does the job itself; if both finish, the second rename puts the same bytes
 * in position again. Claims of another launch count for nothing, so that a restart never waits. A
 * rank that outlives its launch writes the same bytes as the others; if another run (other options,
 * other input) has taken over the output meanwhile, its directory is gone and its next step fails.
 */
#ifndef MEGATRON_PREPROCESS_WORK_H
#define MEGATRON_PREPROCESS_WORK_H

#include <pthread.h>
#include <stdint.h>
#include "disk.h"
#include "lib/error.h"
#include "input_plan.h"
#include "base/core/world.h"

struct work {
    const struct world *world;
    char prefix[DISK_PATH]; /* prefix of the output */
    char root[DISK_PATH];   /* PREFIX.work */
    char base[DISK_PATH];   /* PREFIX.work/IDENTITY; empty until work_use */
    char launch[24];        /* id of the launch */
    uint64_t identity;
    int64_t lease;
    int owned; /* this launch owns the directory */
};

/* Fails if PREFIX.work is a file or a symbolic link. */
int work_init(struct work *work, const char *prefix, const struct world *world, int64_t lease,
              struct error *err);

/* Use the plan with this identity. */
int work_use(struct work *work, uint64_t identity, struct error *err);

/* Rank 0: install 'plan'. Keeps what an earlier launch with the same plan has done ('*resumed'),
 * and removes all other files of runs; call work_files_check first. */
int work_set_plan(struct work *work, const struct input_plan *plan, int *resumed,
                  struct error *err);

/* Has another launch taken over or removed the directory? Called after a failure. */
int work_lost(const struct work *work);

/* Has a rank that finished removed the directory? Another launch would have put its own files
 * there. */
int work_was_removed(struct work *work);

/* Other ranks: wait for rank 0 and read its plan. Returns 0, 1 if the launch has already ended
 * ('err' is its message, or empty), or -1. */
int work_await(struct work *work, struct input_plan *plan, struct error *err);

/* End the launch with a message ("": success), then wait up to 'seconds' for the other ranks to
 * acknowledge it. Returns 0, 1 immediately if another rank has ended it before, or -1. */
int work_end(struct work *work, const char *message, double seconds, struct error *err);

/* Has a rank ended the launch? Returns 1 with its message ("": success), or 0. */
int work_ended(struct work *work, char *message, size_t size);

/* Invalidate the NFS client's cache of missing names. */
void work_refresh(const struct work *work);

/* Acknowledge the end of the launch. After a success the last rank removes the remaining files. */
void work_acknowledge(struct work *work, int well);

/* Record, or test, that the output of this identity is complete. */
int work_mark_finished(struct work *work, struct error *err);
int work_was_finished(struct work *work, uint64_t identity);

/* Remove the whole directory (except the end message, if some ranks have not acknowledged it); this
 * launch's messages; the messages left for ranks of a finished run. */
void work_remove(struct work *work);
void work_forget_launch(struct work *work);
void work_forget_words(struct work *work);

/* The path of a finished part, and of this process's draft of it. */
int work_part_path(const struct work *work, size_t chunk, int64_t documents, int64_t bytes,
                   char *path, struct error *err);
int work_draft_path(const struct work *work, size_t chunk, char *path, struct error *err);

#endif

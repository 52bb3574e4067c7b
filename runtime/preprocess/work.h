/* The work directory PREFIX.work: what ranks share, and all that survives them.
 *
 *     go-LAUNCH              rank 0 has checked the plan; the identity to use
 *     plan                   plan.h
 *     owner                  the launch that works here
 *     end-LAUNCH             how the launch ended, for ranks that look later; stays for those that
 *                            the others have finished without
 *     ack-LAUNCH-RANK        this rank has seen it
 *     finished               the output of this identity is complete; only cleaning up is left
 *     IDENTITY/part-...      a finished chunk; the name counts its documents and bytes
 *     IDENTITY/claim-...     a rank of this launch is at work on a job
 *     IDENTITY/layout        places.h
 *     IDENTITY/copied-...    a copy job whose bytes are on disk
 *     IDENTITY/front-...     front.h
 *     IDENTITY/out-...       the final files, until they are renamed
 *
 * Only what every shared file system does well is used: exclusive creation, rename, and listing a
 * directory. There are no locks and no messages between ranks, so there is nothing to recover and
 * nobody whose death matters. Claims only save work: whoever finds a claim without progress for the
 * time of the lease does the job himself; if both finish, the second rename puts the same bytes in
 * place again. Claims of another launch count for nothing, so that a restart never waits. A rank
 * that outlived its launch writes the same bytes as everyone else; if another run (other options,
 * other input) took the output over meanwhile, its directory is gone and its next step fails. */
#ifndef MEGATRON_PREPROCESS_WORK_H
#define MEGATRON_PREPROCESS_WORK_H

#include <pthread.h>
#include <stdint.h>
#include "disk.h"
#include "error.h"
#include "plan.h"
#include "world.h"

struct work {
    const struct world *world;
    char prefix[DISK_PATH]; /* of the output */
    char root[DISK_PATH];   /* PREFIX.work */
    char base[DISK_PATH];   /* PREFIX.work/IDENTITY; empty until work_use */
    char launch[24];        /* the same in all ranks of a launch, another one in every launch */
    uint64_t identity;
    int64_t lease;
    int owned; /* the directory is this launch's */
};

int work_init(struct work *work, const char *prefix, const struct world *world, int64_t lease,
              struct error *err);

/* Work with the plan of this identity from now on. */
int work_use(struct work *work, uint64_t identity, struct error *err);

/* Rank 0: make 'plan' the current one. Keeps what an earlier run with the same plan has done and
 * removes everything else. '*resumed' tells whether there was such a run. */
int work_publish(struct work *work, const struct plan *plan, int *resumed, struct error *err);

/* Has another launch taken the directory over, or removed it? Asked after something in it failed.
 */
int work_lost(const struct work *work);

/* Has a rank that finished removed the directory, as far as it shows? Another launch would have put
 * its own things there. */
int work_was_removed(struct work *work);

/* Other ranks: wait for rank 0 and read its plan. Returns 0; 1 where the run is over already (then
 * 'err' is how it ended, empty if well); -1 on error or when rank 0 does not come. */
int work_await(struct work *work, struct plan *plan, struct error *err);

/* Say how the launch ended ("": well). Then wait until the other ranks have seen it, for at most
 * 'seconds'. Returns 0; 1 at once where another rank has said it before, whose word counts; -1. */
int work_end(struct work *work, const char *message, double seconds, struct error *err);

/* Has somebody ended the launch? Returns 1 and the message ("" if it went well), else 0. */
int work_ended(struct work *work, char *message, size_t size);

/* Let a client of NFS forget that it did not find a name before. */
void work_refresh(const struct work *work);

/* Tell whoever ended the launch that this rank knows. If it went well, the last of all removes what
 * was left for them. */
void work_acknowledge(struct work *work, int well);

/* The output is complete; was it, for this identity? */
int work_mark_finished(struct work *work, struct error *err);
int work_was_finished(struct work *work, uint64_t identity);

/* Remove the whole directory but the word for ranks that do not know it yet; only what belongs to
 * this launch's messages; what is left for ranks of a run that finished, who must be gone. */
void work_remove(struct work *work);
void work_forget_launch(struct work *work);
void work_forget_words(struct work *work);

/* The name of a finished chunk's part, and of one in the making by this process. */
int work_part_path(const struct work *work, size_t chunk, int64_t documents, int64_t bytes,
                   char *path, struct error *err);
int work_draft_path(const struct work *work, size_t chunk, char *path, struct error *err);

#endif

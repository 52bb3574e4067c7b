/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by checkpoint.c, save.c, load.c and agree.c. */
#ifndef MEGATRON_CHECKPOINT_PRIVATE_H
#define MEGATRON_CHECKPOINT_PRIVATE_H

#include "checkpoint.h"
#include "engine/model/fp8_layers.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ARRAYS = 3, TEXT = 7 * 56 };

enum phase { PHASE_NONE, PHASE_WRITE, PHASE_COMMIT };

/* Progress of a rank's thread. */
struct report {
    int64_t done; /* 0 not yet, 1 done, or -1 failed */
    struct index_file file;
};

struct checkpoint {
    struct checkpoint_config config;
    struct model *model;
    const struct parallel *parallel;
    struct device *device;
    struct checkpoint_arrays arrays;
    const struct parameters *parameters;
    int64_t shard; /* this rank's index among the optimizer's shards */
    int held;      /* the lock of the save directory; -1: none */
    int leads;     /* this rank creates directories, writes the index and reports */

    /* the save in progress */
    enum phase phase;
    struct progress progress;
    char temporary[PATH_MAX];
    double began, stalled, seconds;
    double expected; /* seconds that the last save of an earlier run took; leader only */
    int64_t saved;
    int failed;
    int warned; /* training had to wait for a save, which was reported */
    struct pieces written;
    float *snapshot; /* ARRAYS x shard elements, host memory */
    struct step_state *state;
    struct scaling_rules scaling_rules;
    float *scaling; /* host memory for the scaling state of fp8, NULL: the model has none */
    struct device_stream *stream; /* stream for the copies, separate from the model's */
    struct device_event *stepped; /* in the model's stream: the data to save is complete */
    struct device_event *copied;
    int64_t back_to; /* the run went back to this iteration and has not saved since; -1: no */
    int copying;     /* the snapshot is not complete yet */
    struct index_file *files; /* sizes and checksums from all ranks, on the leader */

    /* the thread, and what it shares with the caller under the lock */
    pthread_t thread;
    int has_thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    enum phase job; /* the thread's job, PHASE_NONE: nothing */
    int quit;
    struct report mine;
    atomic_int_fast64_t moved; /* progress counter of the thread; needs no lock */
    atomic_int committed; /* the checkpoint is complete and old ones are being removed; needs no
                             lock either */
    int64_t seen;         /* the value of 'moved' at time 'seen_at' */
    double seen_at;
    int stuck; /* the thread or the copies were abandoned and still use the memory */
    struct error failure;
    char abandoned[PATH_MAX]; /* where the checkpoints after 'back_to' were just moved, or empty */
    struct error leftover;    /* why old checkpoints could not be removed; empty: they were */
};

/* File next to the checkpoints: the seconds that the last save took. */
#define SECONDS_NAME ".save-seconds"

int checkpoint_arrays_of(const struct checkpoint *c);

/* Do all ranks have rc 0? If not, return the lowest of their codes, with the text of the first rank
 * that has it in 'err'. */
int checkpoint_agree(struct checkpoint *c, int rc, struct error *err);

/* Broadcast the leader's number. */
int checkpoint_from_leader(struct checkpoint *c, int64_t *number, struct error *err);

/* Wait for the copies of a save in progress. Returns -1 if they may still write to host memory. */
int checkpoint_end_copies(struct checkpoint *c);

/* This rank's writer thread. */
int checkpoint_start_thread(struct checkpoint *c, struct error *err);
void checkpoint_end_thread(struct checkpoint *c);

__attribute__((format(printf, 2, 3))) void checkpoint_say(const struct checkpoint *c,
                                                          const char *format, ...);

/* Print a warning on the leader. */
__attribute__((format(printf, 2, 3))) void checkpoint_warn(const struct checkpoint *c,
                                                           const char *format, ...);

#endif

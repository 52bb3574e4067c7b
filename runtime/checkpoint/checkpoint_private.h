/* What checkpoint.c, save.c and load.c share. */
#ifndef MEGATRON_CHECKPOINT_PRIVATE_H
#define MEGATRON_CHECKPOINT_PRIVATE_H

#include "checkpoint.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ARRAYS = 3, TEXT = 7 * 56 };

enum phase { PHASE_NONE, PHASE_WRITE, PHASE_COMMIT };

/* How far a rank's thread is. */
struct report {
    int64_t done; /* 0 not yet, 1, or -1 for a failure */
    struct index_file file;
};

struct checkpoint {
    struct checkpoint_config config;
    struct model *model;
    const struct parallel *parallel;
    struct device *device;
    struct checkpoint_arrays arrays;
    const struct parameters *parameters;
    int64_t shard; /* this rank's number among those that divide the optimizer */
    int held;      /* the lock of the directory to save in; -1: none */
    int leads;     /* this rank names directories, writes the index and speaks */

    /* the save under way */
    enum phase phase;
    struct progress progress;
    char temporary[PATH_MAX];
    double began, stalled, seconds;
    double expected; /* seconds that the last save there took, of an earlier run; leader only */
    int64_t saved;
    int failed;
    int warned; /* training had to wait for a save, and that was said */
    struct pieces written;
    float *snapshot; /* ARRAYS x shard elements, host memory */
    struct step_state *state;
    struct device_stream *stream; /* of the copies, beside the model's */
    struct device_event *stepped; /* in the model's stream: what is to be saved is there */
    struct device_event *copied;
    int64_t back_to;          /* the run went back to this iteration and has not saved; -1: no */
    int copying;              /* the snapshot is not complete yet */
    struct index_file *files; /* of all ranks, on the leader */

    /* the thread, and what it and the caller exchange under the lock */
    pthread_t thread;
    int has_thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    enum phase job; /* what the thread is to do, PHASE_NONE: nothing */
    int quit;
    struct report mine;
    atomic_int_fast64_t moved; /* steps that the thread has made; needs no lock */
    atomic_int committed;      /* the checkpoint is there, and old ones go; needs none, either */
    int64_t seen;              /* of the steps, when 'seen_at' */
    double seen_at;
    int stuck; /* the thread or the copies were given up, and still have the memory */
    struct error failure;
    char abandoned[PATH_MAX]; /* where to it has just moved what came after that, or empty */
    struct error leftover;    /* why old checkpoints could not be removed; empty: they could */
};

/* Beside the checkpoints: the seconds that the last save took. */
#define SECONDS_NAME ".save-seconds"

int checkpoint_arrays_of(const struct checkpoint *c);

/* Do all ranks have rc 0? Otherwise the lowest of their codes, with the text of the first rank that
 * has it in 'err'. */
int checkpoint_agree(struct checkpoint *c, int rc, struct error *err);

/* The leader's number, on all ranks. */
int checkpoint_from_leader(struct checkpoint *c, int64_t *number, struct error *err);

/* Wait for the copies of a save under way. Returns -1 where they may still write to host memory. */
int checkpoint_end_copies(struct checkpoint *c);

/* The thread that writes, of the rank. */
int checkpoint_start_thread(struct checkpoint *c, struct error *err);
void checkpoint_end_thread(struct checkpoint *c);

__attribute__((format(printf, 2, 3))) void checkpoint_say(const struct checkpoint *c,
                                                          const char *format, ...);

#endif

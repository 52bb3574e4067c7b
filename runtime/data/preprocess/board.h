/* SPDX-License-Identifier: Apache-2.0 */
/* Which jobs of a kind are done, claimed or free, according to the file names in the work
 * directory: a rank claims a job by creating a file there (work.h).
 *
 * A claim is simpler than a lease (lease.h), because there may be a hundred thousand: it is taken
 * with a single exclusive creation, a heartbeat appends one byte, and others look at its size only.
 * It is never removed or broken. Another rank takes over with a claim of the next generation. */
#ifndef MEGATRON_PREPROCESS_BOARD_H
#define MEGATRON_PREPROCESS_BOARD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "work.h"

enum job_kind { JOB_CHUNK = 'c', JOB_LAYOUT = 'l', JOB_COPY = 'a', JOB_FINISH = 'f' };

struct job {
    unsigned char done, mine;
    unsigned char made;       /* done by this process */
    int16_t generation;       /* of the newest claim in this launch; -1: none */
    int64_t documents, bytes; /* of a finished chunk */
    int64_t seen;             /* size of the claim when last examined */
    double seen_at;           /* for our own claims: when last touched */
};

/* All jobs of one kind as this rank sees them. Thread-safe. */
struct board {
    enum job_kind kind;
    size_t count, cursor;
    struct job *jobs;
    size_t *early; /* jobs to start with because they take long; or NULL */
    size_t early_count, early_at;
    double touched; /* when all of our own claims were last touched */
    pthread_mutex_t lock;
};

int board_init(struct board *board, enum job_kind kind, size_t count, size_t start,
               struct error *err);
void board_clear(struct board *board);

/* Read the directory. Returns the number of jobs that are not done, or -1. */
int64_t board_scan(struct work *work, struct board *board, struct error *err);

/* The number of chunks, counted from the first and done without a gap, that together have at least
 * 'documents'; 0 if there are too few. */
size_t board_prefix(struct board *board, int64_t documents);

/* Claim a free job. Returns 1 with its number, 0 if there is none, or -1. */
int board_claim(struct work *work, struct board *board, size_t *number, struct error *err);

/* Take over a job whose owner makes no progress. Returns like board_claim. */
int board_take_over(struct work *work, struct board *board, size_t *number, struct error *err);

/* A heartbeat: show that the job makes progress. The second call does so only if the last time was
 * a while ago. */
void board_touch(struct work *work, struct board *board, size_t number);
void board_touch_often(struct work *work, struct board *board, size_t number);

/* The same for all unfinished jobs of this process. */
void board_touch_mine(struct work *work, struct board *board);

/* Are all chunks before this one done? No if there are fewer chunks. */
int board_done_up_to(struct board *board, size_t number);

int board_is_done(struct board *board, size_t number);

/* This process has done the job. A chunk has 'documents' and 'bytes'. */
void board_done(struct board *board, size_t number, int64_t documents, int64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of all jobs of a phase, according to the file names in the work directory: done,
 * claimed or free. A rank claims a job by creating a file (work.h).
 *
 * A claim is simpler than a lease (lease.h), because there may be a hundred thousand: it is created
 * exclusively, a heartbeat appends one byte, and other ranks only look at its size. It is never
 * removed or broken. Another rank takes the job over by creating a claim of the next generation. */
#ifndef MEGATRON_PREPROCESS_BOARD_H
#define MEGATRON_PREPROCESS_BOARD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "work.h"

/* How a finished job shows, and the letter in its claims. */
enum job_kind {
    JOB_CHUNK = 'c',  /* its part exists; the counts are in the name */
    JOB_LAYOUT = 'l', /* the layout exists */
    JOB_MARKED = 'a', /* its done marker exists (work_mark_done) */
    JOB_FINISH = 'f'  /* the work directory is gone */
};

struct job_state {
    unsigned char done, mine;
    unsigned char made;       /* finished by this process */
    int16_t generation;       /* of the newest claim of this launch; -1: none */
    int64_t documents, bytes; /* of a finished chunk */
    int64_t seen;             /* size of the claim when last examined */
    double seen_at;           /* own claims: time of the last heartbeat */
};

/* The jobs of a phase as this rank sees them. Thread-safe. */
struct board {
    enum job_kind kind;
    size_t count, cursor;
    struct job_state *jobs;
    size_t *early; /* long jobs, which are started first; or NULL */
    size_t early_count, early_at;
    double touched; /* when board_touch_mine last touched the claims */
    pthread_mutex_t lock;
};

void board_init(struct board *board, enum job_kind kind, size_t count, size_t start);
void board_clear(struct board *board);

/* Scan the directory. Returns the number of jobs that are not done, or -1. */
int64_t board_scan(struct work *work, struct board *board, struct error *err);

/* The length of the shortest gapless prefix of finished chunks with at least 'documents' documents
 * in total; 0 if there is none. */
size_t board_prefix(struct board *board, int64_t documents);

/* Claim a free job. Returns 1 and its number, 0 if there is none, or -1. */
int board_claim(struct work *work, struct board *board, size_t *number, struct error *err);

/* Take over a job whose claim has expired. */
int board_take_over(struct work *work, struct board *board, size_t *number, struct error *err);

/* Heartbeat: show that the job makes progress. board_touch_often limits the rate. */
void board_touch(struct work *work, struct board *board, size_t number);
void board_touch_often(struct work *work, struct board *board, size_t number);

/* Heartbeat for all unfinished jobs of this process. */
void board_touch_mine(struct work *work, struct board *board);

/* Are there at least 'number' chunks, and are the first 'number' of them done? */
bool board_done_up_to(struct board *board, size_t number);

bool board_is_done(struct board *board, size_t number);

/* Record that this process has finished the job. 'documents' and 'bytes' are those of a chunk. */
void board_done(struct board *board, size_t number, int64_t documents, int64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of all jobs of a phase, according to the file names in its directory: done, claimed or
 * free (jobs.h).
 *
 * A claim is simpler than a lease (lib/lease.h), because there may be a hundred thousand: it is
 * created exclusively, a heartbeat appends one byte, and other ranks only look at its size. It is
 * never removed or broken. Another rank takes the job over by creating a claim of the next
 * generation. */
#ifndef MEGATRON_BOARD_H
#define MEGATRON_BOARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "bytes.h"
#include "disk.h"
#include "lib/error.h"

struct work;

struct job_state {
    bool done, mine;
    int16_t generation;       /* of the newest claim of this launch; -1: none */
    int64_t documents, bytes; /* that a finished job has read */
    int64_t seen;             /* size of the claim when last examined */
    double seen_at;           /* own claims: time of the last heartbeat */
};

/* The jobs of a phase as this rank sees them. Thread-safe. */
struct board {
    const struct work *work;
    char directory[DISK_PATH];
    size_t count, cursor;
    struct job_state *jobs;
    const size_t *early; /* long jobs, which are started first; or NULL */
    size_t early_count, early_at;
    pthread_mutex_t lock;
};

/* 'start' is the job to claim first. Creates the directory of 'phase'. The caller clears the board
 * also on error. */
int board_init(struct board *board, const struct work *work, const char *phase, size_t count,
               size_t start, struct error *err);
void board_clear(struct board *board);

/* Scan the directory. Returns the number of jobs that are not done, or -1. */
int64_t board_scan(struct board *board, struct error *err);

/* The length of the shortest gapless prefix of finished jobs that have read at least 'documents'
 * documents in total; 0 if there is none. */
size_t board_prefix(struct board *board, int64_t documents);

/* Are the first 'number' jobs done? */
bool board_done_up_to(struct board *board, size_t number);

bool board_is_done(struct board *board, size_t number);

/* Claim a free job. Returns 1 and its number, 0 if there is none, or -1. */
int board_claim(struct board *board, size_t *number, struct error *err);

/* Take over a job whose claim has expired. Returns like board_claim. */
int board_take_over(struct board *board, size_t *number, struct error *err);

/* Heartbeat, at a limited rate: show that the job makes progress. */
void board_touch(struct board *board, size_t number);

/* The path of the done marker of a finished job. */
int board_done_path(struct board *board, size_t number, char *path, struct error *err);

/* Create the done marker of a job with its result, or with NULL an empty one. */
int board_mark_done(struct board *board, size_t number, int64_t documents, int64_t bytes,
                    struct bytes *result, struct error *err);

#endif

/* Which jobs of a kind are done, at work or free: read from the names in the work directory, where
 * a job is claimed by creating a file (work.h). */
#ifndef MEGATRON_PREPROCESS_BOARD_H
#define MEGATRON_PREPROCESS_BOARD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "work.h"

enum job_kind { JOB_CHUNK = 'c', JOB_LAYOUT = 'l', JOB_COPY = 'a', JOB_FINISH = 'f' };

struct job {
    unsigned char done, mine;
    unsigned char made;       /* done by this process */
    int16_t generation;       /* of the newest claim in this launch; -1: none */
    int64_t documents, bytes; /* of a finished chunk */
    int64_t seen;             /* size of the claim when last looked at */
    double seen_at;           /* of one's own: when it was last touched */
};

/* All jobs of one kind as this rank knows them. Safe for several threads. */
struct board {
    enum job_kind kind;
    size_t count, cursor;
    struct job *jobs;
    size_t *early; /* jobs to begin with, because they take long; or NULL */
    size_t early_count, early_at;
    double touched; /* all of one's own: when */
    pthread_mutex_t lock;
};

int board_init(struct board *board, enum job_kind kind, size_t count, size_t start,
               struct error *err);
void board_clear(struct board *board);

/* Read from the directory what is done and claimed. Returns the number of jobs not done, or -1. */
int64_t board_scan(struct work *work, struct board *board, struct error *err);

/* How many chunks from the first on are done and have at least 'documents' together; 0 if the
 * chunks that are done without a gap have not. */
size_t board_prefix(struct board *board, int64_t documents);

/* Claim a job that nobody works at. Returns 1 with its number, 0 if there is none, -1. */
int board_claim(struct work *work, struct board *board, size_t *number, struct error *err);

/* Claim a job whose owner makes no progress. Returns like board_claim. */
int board_take_over(struct work *work, struct board *board, size_t *number, struct error *err);

/* Show that the job goes on. For many small steps: only where the last time is a while ago. */
void board_touch(struct work *work, struct board *board, size_t number);
void board_touch_often(struct work *work, struct board *board, size_t number);

/* The same for all jobs of this process that are not done, where the last time is a while ago. */
void board_touch_mine(struct work *work, struct board *board);

/* Are all chunks before this one done? Not if there are fewer. */
int board_done_up_to(struct board *board, size_t number);

int board_is_done(struct board *board, size_t number);

/* The job is done, by this process. For a chunk: it has 'documents' and 'bytes'. */
void board_done(struct board *board, size_t number, int64_t documents, int64_t bytes);

#endif

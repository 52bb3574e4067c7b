/* Inside of preprocess/: one chunk in the making. */
#ifndef MEGATRON_PREPROCESS_CHUNK_H
#define MEGATRON_PREPROCESS_CHUNK_H

#include "block.h"
#include "encode.h"

struct chunk {
    size_t number;
    struct record_reader *reader;
    struct part_writer *part;
    struct part_totals totals;
    char draft[DISK_PATH];
    int reading; /* a thread is at the reader */
    int input_done;
    size_t users;      /* threads that hold it */
    int64_t next_read; /* numbers of blocks */
    _Atomic int64_t next_write;
    int direct;            /* its tokens go to the front of the output */
    int shared;            /* reading it is quick: several threads may work at it */
    _Atomic int placed;    /* its turn has come: what is encoded may be written */
    int writing;           /* a thread is at it */
    _Atomic int full;      /* it has all documents that are wanted at most */
    int64_t *lines;        /* of each segment */
    size_t counted;        /* 1 + the segment whose lines before it are counted */
    int64_t counted_lines; /* so many */
    struct block *waiting; /* encoded before their turn, by number */
    pthread_mutex_t write_lock;
    double touched;
    int broken; /* its input cannot be read further: 'err' */
    struct error err;
    struct chunk *next;
};

/* 'direct': all chunks before it are made, or will be without another block being read. */
struct chunk *chunk_open(struct encode *encode, size_t number, int direct, struct error *err);
void chunk_abandon(struct chunk *chunk);

/* Put an encoded block into the part, when its turn has come, and those that waited for it. 'block'
 * may be NULL. Blocks that are done with are put onto '*freed'. */
int chunk_commit(struct encode *encode, struct chunk *chunk, struct block *block,
                 struct block **freed, struct error *err);

/* Give the finished part its name. */
int chunk_finish(struct encode *encode, struct chunk *chunk, struct error *err);

/* A sentence for a line that --strict does not pass over. */
int chunk_strict(struct encode *encode, struct chunk *chunk, const struct part_fault *fault,
                 struct error *err);

#endif

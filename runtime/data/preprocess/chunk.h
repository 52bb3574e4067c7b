/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: a chunk that is being encoded. */
#ifndef MEGATRON_PREPROCESS_CHUNK_H
#define MEGATRON_PREPROCESS_CHUNK_H

#include "document_block.h"
#include "encode.h"

struct chunk {
    size_t number;
    struct job job;
    struct record_reader *reader;
    struct part_writer *part;
    struct part_totals totals;
    char draft[DISK_PATH];
    int reading; /* a thread is using the reader */
    int input_done;
    size_t users;      /* threads that work on it */
    int64_t next_read; /* number of the next block to read */
    _Atomic int64_t next_write;
    int writing;           /* a thread is writing a block */
    _Atomic int full;      /* has reached the maximum number of documents */
    int64_t *lines;        /* lines of each segment */
    size_t counted;        /* 1 + index of the segment that 'counted_lines' belongs to */
    int64_t counted_lines; /* lines of the file before that segment */
    struct block *waiting; /* encoded blocks whose predecessors are missing, by number */
    pthread_mutex_t write_lock;
    int broken; /* its input cannot be read to the end; see 'err' */
    struct error err;
    struct chunk *next;
};

struct chunk *chunk_open(struct encode *encode, size_t number, struct error *err);
void chunk_abandon(struct chunk *chunk);

/* Write an encoded block, or NULL, to the part when its predecessors are written, and then the
 * blocks that waited for it. Written blocks are added to '*freed'. */
int chunk_commit(struct encode *encode, struct chunk *chunk, struct block *block,
                 struct block **freed, struct error *err);

/* Add the blocks that wait for their predecessors to '*freed', unwritten. */
void chunk_drop(struct chunk *chunk, struct block **freed);

/* Finish the part and rename it. */
int chunk_finish(struct encode *encode, struct chunk *chunk, struct error *err);

/* Prefix 'err' with the location of a document of chunk 'number': file and line, or page. Reads the
 * file up to there to count lines. Returns -1. */
int chunk_place(struct encode *encode, size_t number, const struct part_fault *place,
                struct error *err);

/* The error for a faulty line in strict mode. */
int chunk_strict(struct encode *encode, size_t number, const struct part_fault *fault,
                 struct error *err);

#endif

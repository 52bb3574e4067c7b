/* SPDX-License-Identifier: Apache-2.0 */
/* The phase that turns chunks into parts, with the threads of one rank.
 *
 * Each thread has its own chunk as long as there are any. Then threads help with the chunks of
 * others: one reads (and decompresses) the next block while others encode the previous ones, and
 * blocks are written in order. This way a file that is one long gzip stream still uses all cores,
 * and the last chunks do not leave cores idle. */
#ifndef MEGATRON_PREPROCESS_ENCODE_H
#define MEGATRON_PREPROCESS_ENCODE_H

#include <pthread.h>
#include <stdatomic.h>
#include "data/jobs/jobs.h"
#include "part.h"
#include "preprocess.h"

struct encode {
    const struct preprocess_config *config;
    const struct input_plan *plan;
    struct phase *phase;
    const struct tokenizer *tokenizer;
    const struct punkt *punkt; /* NULL: texts are not split into sentences */
    size_t threads;
    _Atomic int64_t shown; /* faulty documents that were reported when found */
    _Atomic int stop;      /* set by encode_stop */
    struct encode_pool *pool;
    /* With a limit on documents: the first chunk whose input is unreadable. That matters only if
     * the chunks before it do not have enough documents. SIZE_MAX: none. */
    size_t broken;
    struct error broken_err;
    struct job *redoing; /* the job of a later phase that waits for encode_redo, or NULL */
};

/* Create encoders and buffers for all threads; they are kept until encode_close. */
int encode_open(struct encode *encode, struct error *err);
void encode_close(struct encode *encode);

/* phase->work: encode chunks until none is free. Returns 0, or -1 if a chunk failed ('broken' is
 * not a failure). */
int encode_chunks(void *context, const size_t *first, struct error *err);

/* phase->stop: make encode_chunks end soon. Unfinished chunks are dropped. */
void encode_stop(void *context);

/* phase->is_complete */
int encode_is_complete(void *context, struct error *err);

/* Open the part of a chunk. Parts are not synced to disk, so a crash of a node may leave one
 * incomplete ("torn"): its chunk is encoded again. 'job' is the caller's job, which is kept alive.
 * Returns NULL with 'err' set. */
struct part_reader *encode_open_part(struct encode *encode, struct job *job, size_t chunk,
                                     struct error *err);

/* A part turned out to be torn: encode its chunk again. One thread at a time. */
int encode_redo(struct encode *encode, struct job *job, size_t chunk, struct error *err);

/* The path of a part. */
int encode_part_path(const struct encode *encode, size_t chunk, char *path, struct error *err);

#endif

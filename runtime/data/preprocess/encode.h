/* SPDX-License-Identifier: Apache-2.0 */
/* Turns chunks into parts with the threads of one rank.
 *
 * Each thread has its own chunk as long as there are any. Then threads help with the chunks of
 * others: one reads (and decompresses) the next block while others encode the previous ones, and
 * blocks are written in order. This way a file that is one long gzip stream still uses all cores,
 * and the last chunks do not leave cores idle. */
#ifndef MEGATRON_PREPROCESS_ENCODE_H
#define MEGATRON_PREPROCESS_ENCODE_H

#include <stdatomic.h>
#include "part.h"
#include "data/jobs/input_plan.h"
#include "preprocess.h"
#include "data/jobs/board.h"
#include "data/jobs/work.h"

/* Counts of this rank for the progress report. */
struct encode_counts {
    _Atomic int64_t documents, bytes, tokens, skipped;
    _Atomic int64_t passed; /* bytes of input on disk */
};

struct encode {
    const struct preprocess_config *config;
    const struct input_plan *plan;
    struct work *work;
    struct board *board;
    const struct tokenizer *tokenizer;
    const struct punkt *punkt; /* NULL: texts are not split into sentences */
    size_t threads;
    struct encode_counts counts;
    _Atomic int64_t shown; /* faulty documents that were reported when found */
    _Atomic int stop;      /* set by encode_stop */
    struct encode_pool *pool;
    /* With a limit on documents: the first chunk whose input is unreadable. That matters only if
     * the chunks before it do not have enough documents. SIZE_MAX: none. */
    size_t broken;
    struct error broken_err;
};

/* Create encoders and buffers for all threads; they are kept until encode_close. */
int encode_open(struct encode *encode, struct error *err);
void encode_close(struct encode *encode);

/* Encode chunks until none is free. 'first', if not NULL, is a chunk that is already claimed.
 * Returns 0, or -1 if a chunk failed ('broken' is not a failure). */
int encode_run(struct encode *encode, const size_t *first, struct error *err);

/* Make encode_run end soon, from another thread. Unfinished chunks are dropped. */
void encode_stop(struct encode *encode);

#endif

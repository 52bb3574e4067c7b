/* Chunks -> part files, by the threads of one rank.
 *
 * Each thread has a chunk of its own as long as there are any. When there are no more, threads help
 * with the chunks of others: one reads (and decompresses) the next block while others encode those
 * before it, and blocks are written in order. So a file that is one long gzip stream still uses
 * all cores, and the last chunks do not leave cores idle. */
#ifndef MEGATRON_PREPROCESS_ENCODE_H
#define MEGATRON_PREPROCESS_ENCODE_H

#include <stdatomic.h>
#include "part.h"
#include "plan.h"
#include "preprocess.h"
#include "board.h"
#include "front.h"
#include "work.h"

/* What the rank has done so far; read by whoever shows progress. */
struct encode_counts {
    _Atomic int64_t documents, bytes, tokens, skipped;
    _Atomic int64_t passed; /* bytes of the input as it lies on disk */
};

struct encode {
    const struct preprocess_config *config;
    const struct plan *plan;
    struct work *work;
    struct board *board;
    struct front *front;
    const struct tokenizer *tokenizer;
    size_t threads;
    struct encode_counts counts;
    _Atomic int64_t shown; /* broken documents that were named when they were met */
    _Atomic int stop;      /* set by encode_stop */
    struct encode_team *team;
    /* With --max-documents: a chunk whose input cannot be read, which matters only if the chunks
     * before it have not enough documents. SIZE_MAX: there is none. */
    size_t broken;
    struct error broken_err;
};

/* Start with a set of threads' encoders and buffers; they are kept until encode_close. */
int encode_open(struct encode *encode, struct error *err);
void encode_close(struct encode *encode);

/* Work until no chunk is left to claim. 'first', if not NULL, is a chunk claimed already. Returns
 * 0, or -1 when a chunk failed; a chunk that is broken has not failed. */
int encode_run(struct encode *encode, const size_t *first, struct error *err);

/* Let a running encode_run end soon, from another thread; what is unfinished is dropped. */
void encode_stop(struct encode *encode);

#endif

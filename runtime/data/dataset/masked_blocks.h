/* SPDX-License-Identifier: Apache-2.0 */
/* How a corpus of lines is cut into samples for masked language models, and how samples are put
 * into batches: fairseq's rules.
 *
 * A block is a run of consecutive tokens of the corpus. Batches hold blocks of similar length; they
 * are made once, and each epoch shuffles them. */
#ifndef MEGATRON_MASKED_BLOCKS_H
#define MEGATRON_MASKED_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "indexed.h"

/* --sample-break-mode */
enum break_mode {
    BREAK_NONE,         /* equal cuts, wherever they fall */
    BREAK_COMPLETE,     /* whole lines, as many as fit; a longer line is a block of its own */
    BREAK_COMPLETE_DOC, /* whole lines; a block also ends at an empty line, which is dropped */
    BREAK_EOS,          /* one line */
};

struct blocks {
    int64_t *begins;  /* first token of each, counted over the corpus */
    int32_t *lengths; /* tokens of each */
    int64_t count, capacity;
};

/* Cut a corpus into blocks of up to 'size' tokens. Returns 0 or -1; call blocks_clear in both
 * cases. */
int blocks_make(struct blocks *blocks, const struct indexed *corpus, enum break_mode mode,
                int64_t size, struct error *err);
/* Incrementally: add lines of the given lengths; '*state' is the open block and begins as zero. */
struct blocks_state {
    int64_t at, length; /* of the open block */
};
int blocks_add(struct blocks *blocks, struct blocks_state *state, enum break_mode mode,
               int64_t size, const int32_t *lines, int64_t count, struct error *err);
int blocks_finish(struct blocks *blocks, struct blocks_state *state, enum break_mode mode,
                  struct error *err);
void blocks_clear(struct blocks *blocks);

/* Which blocks form which batch: batch i is order[ends[i - 1]] to order[ends[i] - 1]. */
struct batching {
    uint32_t *order;
    int64_t *ends;
    int64_t blocks, batches;
    int64_t skipped; /* blocks that are too long */
};

struct batching_config {
    int64_t max_sentences; /* blocks in a batch */
    int64_t max_tokens;    /* longest block x blocks; 0: no limit */
    int64_t multiple;      /* batches of more blocks than this have a multiple of it */
    int64_t longest;       /* tokens; longer blocks are left out */
    int64_t extra;         /* tokens that are added to each block */
    uint32_t seed;
};

/* Sort the blocks by length, equal ones at random, and cut the list into batches. Returns 0 or -1;
 * call batching_clear in both cases. */
int batching_make(struct batching *batching, const struct blocks *blocks,
                  const struct batching_config *config, struct error *err);
void batching_clear(struct batching *batching);

/* The order of the batches in an epoch (from 1). 'order' has room for 'batches'. */
void batching_shuffle(int64_t batches, uint32_t seed, int64_t epoch, uint32_t *order);

#endif

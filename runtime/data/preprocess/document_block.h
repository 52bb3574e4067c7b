/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: a block of documents between a chunk's reader and its part. */
#ifndef MEGATRON_DOCUMENT_BLOCK_H
#define MEGATRON_DOCUMENT_BLOCK_H

#include <pthread.h>
#include "document.h"
#include "part.h"
#include "preprocess.h"

struct block {
    struct record_block records;
    struct part_data data;
    size_t held;    /* bytes that a long line needed; 0: as usual */
    int64_t number; /* within its chunk */
    int64_t faults[FAULT_COUNT];
    struct part_fault listed[PART_FAULTS]; /* the first ones */
    int64_t listed_count;
    int64_t leading;          /* lines without a key before the first document */
    char names[256];          /* members of the first line without a key */
    struct part_fault failed; /* where the document is that made block_encode fail */
    struct block *next;
};

/* What one thread encodes blocks with. */
struct block_encoder {
    const struct preprocess_config *config;
    const struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct document_parser parser;
    const struct punkt *punkt; /* shared by all threads; NULL: texts are not split */
    struct punkt_spans spans;
    pthread_mutex_t *long_lock; /* shared: a long line takes several times its size */
};

/* Longer lines make a block large and are handled by one thread at a time. */
#define BLOCK_LONG_LINE ((size_t)1 << 20)

/* Returns 0 or -1; 'cache' bounds the encoder's memory. */
int block_encoder_open(struct block_encoder *with, const struct preprocess_config *config,
                       const struct tokenizer *tokenizer, const struct punkt *punkt, size_t cache,
                       pthread_mutex_t *long_lock, struct error *err);
void block_encoder_close(struct block_encoder *with);

/* Encode all documents of a block. Faults of documents are recorded in the block. Returns 0, or -1
 * if out of memory or if a text is too long; 'failed' is its place. */
int block_encode(struct block_encoder *with, struct block *block, struct error *err);

/* Empty it for reuse, and free what a huge document needed. */
void block_reset(struct block *block, size_t keys);
void block_clear(struct block *block);

#endif

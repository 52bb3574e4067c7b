/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: a block of documents, on its way from a chunk's reader to its part. */
#ifndef MEGATRON_DOCUMENT_BLOCK_H
#define MEGATRON_DOCUMENT_BLOCK_H

#include <pthread.h>
#include "document.h"
#include "part.h"
#include "preprocess.h"

struct block {
    struct record_block records;
    struct part_data data;
    size_t held;    /* memory for a long line; 0: the block has normal size */
    int64_t number; /* within its chunk */
    int64_t passed; /* bytes of input on disk that were read for it */
    int64_t faults[FAULT_COUNT];
    struct part_fault listed[PART_FAULTS]; /* the first ones */
    int64_t listed_count;
    int64_t leading;          /* lines that lack a key before the first document */
    char names[256];          /* members of the first line that lacks a key */
    struct part_fault failed; /* location of the document for which block_encode failed */
    struct block *next;
};

/* The encoder of one thread. */
struct block_encoder {
    const struct preprocess_config *config;
    const struct tokenizer *tokenizer;
    struct encoder *encoder;
    struct document_parser parser;
    const struct punkt *punkt; /* shared; NULL: texts are not split */
    struct punkt_spans spans;
    pthread_mutex_t *long_lock; /* shared: encoding a long line takes several times its size */
};

/* Longer lines make a block large and are handled by one thread at a time. */
#define BLOCK_LONG_LINE ((size_t)1 << 20)

/* Returns 0 or -1; 'cache' bounds the encoder's memory. */
int block_encoder_open(struct block_encoder *with, const struct preprocess_config *config,
                       const struct tokenizer *tokenizer, const struct punkt *punkt, size_t cache,
                       pthread_mutex_t *long_lock, struct error *err);
void block_encoder_close(struct block_encoder *with);

/* Encode all documents of a block and record the faulty ones in it. Returns 0, or -1 if a text is
 * too long; 'failed' is its location. */
int block_encode(struct block_encoder *with, struct block *block, struct error *err);

/* Empty a block for reuse, and free the memory of huge documents. */
void block_reset(struct block *block, size_t keys);
void block_clear(struct block *block);

#endif

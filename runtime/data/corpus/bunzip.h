/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: blocks of bzip2, decoded without libbz2. Most of the time is spent walking
 * back through the Burrows-Wheeler transform, where each step waits for memory. Here the walks of
 * several blocks are interleaved, so that one proceeds while another waits; libbz2, which decodes
 * one block at a time, cannot do that. */
#ifndef MEGATRON_CORPUS_BUNZIP_H
#define MEGATRON_CORPUS_BUNZIP_H

#include <stddef.h>
#include <stdint.h>

#define BUNZIP_BLOCK_MAGIC 0x314159265359ull
#define BUNZIP_END_MAGIC   0x177245385090ull

enum {
    BUNZIP_LIMIT = 900000,      /* bytes of a block before its runs are expanded */
    BUNZIP_PACKED = 1200 << 10, /* the size of the longest possible block in bytes */
    BUNZIP_PADDING = 256,       /* bytes after the input that may be read */
    BUNZIP_TOGETHER = 8,        /* blocks whose walks are interleaved */
};

struct bunzip_block {
    uint32_t *links;      /* BUNZIP_LIMIT entries */
    unsigned char *bytes; /* before the runs are expanded */
    uint32_t count, origin, checksum;
    unsigned char *output;
    size_t size, capacity;
};

/* Memory of a block. Returns 0 or -1. */
int bunzip_block_create(struct bunzip_block *block);
void bunzip_block_destroy(struct bunzip_block *block);

enum bunzip_result {
    BUNZIP_OK,
    BUNZIP_SHORT,   /* the input ends inside the block */
    BUNZIP_CORRUPT, /* it is not a block */
};

/* Read the block whose magic number begins at bit '*bit' of the 'size' bytes at 'data'; '*bit' is
 * then the bit after the block. */
enum bunzip_result bunzip_read(struct bunzip_block *block, const unsigned char *data, size_t size,
                               uint64_t *bit);

/* Turn 'count' blocks that were read (at most BUNZIP_TOGETHER) into output. Returns -1 if all are
 * intact, otherwise the number of the first damaged one. */
int bunzip_finish(struct bunzip_block *const *blocks, int count);

/* Up to 48 bits of the input, which must be available. */
uint64_t bunzip_bits(const unsigned char *data, uint64_t bit, int count);

#endif

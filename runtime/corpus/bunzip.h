/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of corpus/: blocks of bzip2, decoded without libbz2.
 *
 * What takes the time is the walk back through the Burrows-Wheeler transform: each step waits for
 * memory. The walks of several blocks are made side by side here, so that one waits while another
 * goes on; that is what libbz2, which sees one block at a time, cannot do. */
#ifndef MEGATRON_CORPUS_BUNZIP_H
#define MEGATRON_CORPUS_BUNZIP_H

#include <stddef.h>
#include <stdint.h>

#define BUNZIP_BLOCK_MAGIC 0x314159265359ull
#define BUNZIP_END_MAGIC   0x177245385090ull

enum {
    BUNZIP_LIMIT = 900000,      /* bytes of a block before its runs are expanded */
    BUNZIP_PACKED = 1200 << 10, /* more bits than any block has, in bytes */
    BUNZIP_PADDING = 256,       /* bytes behind the input that may be read */
    BUNZIP_TOGETHER = 4,        /* blocks whose walks are made side by side */
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
    BUNZIP_SHORT,   /* the input ends inside of the block */
    BUNZIP_CORRUPT, /* it is no block */
};

/* Read the block whose magic number begins at bit '*bit' of the 'size' bytes at 'data'; '*bit'
 * becomes the one behind it. */
enum bunzip_result bunzip_read(struct bunzip_block *block, const unsigned char *data, size_t size,
                               uint64_t *bit);

/* Turn 'count' blocks that were read (at most BUNZIP_TOGETHER) into output. Returns -1 if all are
 * right; else the number of the first one that is not; 'count' when memory is out. */
int bunzip_finish(struct bunzip_block *const *blocks, int count);

/* Bits of the input, at most 48 of them. They must be there. */
uint64_t bunzip_bits(const unsigned char *data, uint64_t bit, int count);

#endif

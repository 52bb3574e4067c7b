/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's file of a checkpoint: a safetensors file with a checksum per block. The header is
 * followed by 'arrays' arrays of the rank's pieces, all fp32, and then the tensor "checksums" with
 * one 64-bit number for each SHARD_BLOCK bytes of them. The file's checksum in the index covers the
 * header and these numbers, so every byte is covered, and a reader of a few rows checks only the
 * blocks it needs. */
#ifndef MEGATRON_SHARD_FILE_H
#define MEGATRON_SHARD_FILE_H

#include "index.h"
#include "directory.h"

#define SHARD_BLOCK ((size_t)4 << 20) /* bytes */

/* The number of blocks of 'bytes' bytes. */
static inline int64_t shard_blocks(int64_t bytes)
{
    return (bytes + (int64_t)SHARD_BLOCK - 1) / (int64_t)SHARD_BLOCK;
}

/* Write the pieces of 'parameters' from 'arrays' (of the shard's elements each) to 'path' and flush
 * them to disk. Fills in data, elements, bytes and checksum of 'file'. 'moved' (or NULL) counts
 * progress. */
int shard_file_write(const char *path, const struct parameters *parameters,
                     const struct pieces *pieces, const float *const *arrays, int array_count,
                     struct index_file *file, atomic_int_fast64_t *moved, struct error *err);

struct shard_reader;

/* Open a file for reading and check its length, header and checksums. Returns 0,
 * CHECKPOINT_DAMAGED, CHECKPOINT_UNREADABLE or -1; call shard_reader_close in all cases. */
int shard_reader_open(struct shard_reader **reader, const char *directory,
                      const struct index_file *file, int arrays, struct error *err);
void shard_reader_close(struct shard_reader *reader);

/* Destination of what is read. Elements are counted over all arrays of the file, one after the
 * other. Both functions are called from several threads, for blocks that do not overlap. */
struct shard_sink {
    /* Is any of elements first .. first + count - 1 needed? If all of them are contiguous at one
     * destination, it is returned in 'to', and they are read directly there instead of being passed
     * to 'take'. */
    int (*wants)(void *context, int64_t first, int64_t count, float **to);
    void (*take)(void *context, int64_t first, int64_t count, const float *elements);
    void *context;
};

/* Read and check the blocks that are needed, with several threads. Return values as for
 * shard_reader_open. */
int shard_reader_read(struct shard_reader *reader, const struct shard_sink *sink,
                      struct error *err);

/* Check every block. */
int shard_reader_verify(struct shard_reader *reader, struct error *err);

#endif

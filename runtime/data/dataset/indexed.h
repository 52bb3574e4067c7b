/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenized corpus on disk: PREFIX.idx and PREFIX.bin (see idx_format.h).
 * Everything is read with pread, nothing is mapped: with mmap, a file that is truncated while it is
 * read or a file server that fails kills the process with SIGBUS; with pread both are errors that
 * name the file and the offset. Both use the same page cache, so all ranks of a node share one
 * copy, and a sample costs microseconds of system calls. A struct indexed does not change after it
 * was opened: any number of threads may read from it.
 */
#ifndef MEGATRON_INDEXED_H
#define MEGATRON_INDEXED_H

#include <stdint.h>
#include "lib/error.h"
#include "idx_format.h"

struct indexed;

/* The contents of the header, and the sizes of the files. */
struct indexed_info {
    enum idx_dtype dtype;
    int64_t sequences;
    int64_t documents; /* one less than the entries of the document array */
    int64_t idx_size, bin_size;
    int64_t idx_time; /* modification time of the .idx file, in nanoseconds */
    int multimodal;   /* the .idx file ends with modes */
    int fairseq;      /* no document array: every sequence is a document */
};

/* Open PREFIX.idx and PREFIX.bin and check, at a cost that does not depend on their sizes: magic,
 * version, type, counts against the size of the file, first and last document, and that the last
 * sequence ends within the .bin file. Returns NULL with 'err' naming file and offset. Caller must
 * close. */
struct indexed *indexed_open(const char *prefix, struct error *err);
void indexed_close(struct indexed *indexed);

const struct indexed_info *indexed_info(const struct indexed *indexed);
const char *indexed_prefix(const struct indexed *indexed);

/* Read 'count' entries of one of the arrays, starting at 'first'. Returns 0, or -1 if the range is
 * outside the array, the file cannot be read or an entry is damaged (a negative length, a document
 * before the previous one of the call or after the last sequence); then the contents of 'out' are
 * undefined. */
int indexed_lengths(const struct indexed *indexed, int64_t first, int64_t count, int32_t *out,
                    struct error *err);
/* Here the range may include one entry more than there are documents: the last one is the number of
 * sequences. */
int indexed_documents(const struct indexed *indexed, int64_t first, int64_t count, int64_t *out,
                      struct error *err);

/* Tokens in 'sequence', or -1. */
int64_t indexed_length(const struct indexed *indexed, int64_t sequence, struct error *err);

/* Read tokens [offset, offset + count) of 'sequence' as int32. A negative count means all up to the
 * sequence's end, but at most 'capacity'. Returns the number of tokens, or -1: the range is not
 * within the sequence, the sequence not within the .bin file, a token does not fit int32, or
 * reading failed. */
int64_t indexed_tokens(const struct indexed *indexed, int64_t sequence, int64_t offset,
                       int64_t count, int32_t *out, int64_t capacity, struct error *err);

/* Read tokens [first, first + count) of all sequences as int32, as if they were one: they follow
 * each other in the .bin file without gaps (indexed_verify). Returns 0, or -1. */
int indexed_stream(const struct indexed *indexed, int64_t first, int64_t count, int32_t *out,
                   struct error *err);

/* Read the whole .idx file and check every entry: no negative lengths, each sequence starts where
 * the previous one ends and is within the .bin file, documents are in order. The first problem is
 * the error. On success '*tokens' (if not NULL) is the number of tokens in all sequences. */
int indexed_verify(const struct indexed *indexed, int64_t *tokens, struct error *err);

/* Read all of 'size' bytes at 'offset', or fail: the file may have been truncated since it was
 * opened. 'path' is for the error. */
int dataset_read_at(int fd, const char *path, void *out, size_t size, int64_t offset,
                    struct error *err);

#endif

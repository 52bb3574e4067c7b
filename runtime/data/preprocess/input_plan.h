/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run: the input files and how they are cut into chunks. Made once by rank 0 and read
 * by all.
 *
 * A chunk is a list of file ranges (segments). Its result depends on the plan only: not on the
 * number of ranks or threads, nor on which rank encodes it, nor when. Any rank can therefore repeat
 * a chunk, and doing one twice does no harm. The identity of the plan is a hash of everything that
 * the results depend on: options, tokenizer files and their special ids, names, sizes and times of
 * the input. Runs with different identities never share chunks. */
#ifndef MEGATRON_INPUT_PLAN_H
#define MEGATRON_INPUT_PLAN_H

#include "bytes.h"
#include "data/corpus/files.h"
#include "preprocess.h"
#include "data/corpus/records.h"

/* Up to this many files are named when they are opened; more are only counted. */
enum { INPUT_PLAN_NAMED_FILES = 64 };

struct input_plan {
    uint64_t identity;
    struct corpus_files files;
    struct segment *segments;
    size_t segment_count;
    size_t *chunks; /* chunk i is segments [chunks[i], chunks[i + 1]) */
    size_t chunk_count;
    int64_t input_bytes; /* on disk */
};

/* Scan the input and cut it; 'tokenizer' is the one of 'config'. Caller must clear in both cases.
 */
int input_plan_make(struct input_plan *plan, const struct preprocess_config *config,
                    const struct tokenizer *tokenizer, struct error *err);
void input_plan_clear(struct input_plan *plan);

/* How pages of dumps become documents, as part of an identity. */
void input_plan_put_wiki(struct bytes *bytes, const struct wiki_options *wiki);

/* Cut the files in 'plan' into segments and chunks of about 'chunk_bytes' on disk (0: by the size
 * of the input), but not into more than a directory should hold; '*target' becomes the size that
 * was used. The identity is the caller's. */
int input_plan_cut(struct input_plan *plan, enum record_mode mode, int64_t chunk_bytes,
                   int64_t *target, struct error *err);
/* Tell the user if 'chunk_bytes', as asked for, was too small. */
void input_plan_note(const struct input_plan *plan, int64_t chunk_bytes, int64_t target);

int input_plan_write(const struct input_plan *plan, const char *path, struct error *err);
/* Returns 0; 1 if there is no complete plan at 'path'; -1 on error. */
int input_plan_read(struct input_plan *plan, const char *path, struct error *err);
/* Is the file at 'path' a plan, complete or not? Returns 1 also if it is gone, -1 if it cannot be
 * read. */
int input_plan_is(const char *path, struct error *err);

/* The chunks that consist of one file which could not be cut and are much larger than the others,
 * largest first: started first, they do not delay the end. The caller frees '*list'. Returns their
 * number, or SIZE_MAX if out of memory. */
size_t input_plan_large_chunks(const struct input_plan *plan,
                               const struct preprocess_config *config, size_t **list);

/* Bytes on disk of a chunk. */
int64_t input_plan_chunk_bytes(const struct input_plan *plan, size_t chunk);

#endif

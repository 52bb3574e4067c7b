/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run: the input files and how they are cut into chunks. Rank 0 makes it, all ranks
 * read it.
 *
 * A chunk is a list of file ranges (segments). Its result depends only on the plan: not on the
 * number of ranks or threads, nor on who encodes it and when. So any rank can redo any chunk. The
 * identity of the plan is a hash of everything that the results depend on: options, tokenizer files
 * and special token ids, and the names, sizes and times of the input files. Runs with different
 * identities never share chunks. */
#ifndef MEGATRON_INPUT_PLAN_H
#define MEGATRON_INPUT_PLAN_H

#include "bytes.h"
#include "data/corpus/corpus.h"
#include "data/corpus/wiki.h"

/* Up to this many input files are logged by name. */
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

void input_plan_clear(struct input_plan *plan);

/* Add the options that convert the pages of dumps to an identity. */
void input_plan_put_wiki(struct bytes *bytes, const struct wiki_options *wiki);

/* Add the paths, sizes and times of the input files to an identity. */
void input_plan_put_files(struct bytes *bytes, const struct input_plan *plan);

/* Cut plan->files into segments and chunks of about 'chunk_bytes' on disk (0: chosen by the size of
 * the input), but not into more chunks than a directory should hold. Returns the chunk size used.
 * The caller sets the identity. */
int64_t input_plan_cut(struct input_plan *plan, enum record_mode mode, int64_t chunk_bytes);
/* Log a note if 'chunk_bytes' was raised to 'target'. */
void input_plan_note(const struct input_plan *plan, int64_t chunk_bytes, int64_t target);

int input_plan_write(const struct input_plan *plan, const char *path, struct error *err);
/* Returns 0; 1 if there is no complete plan at 'path'; -1 on error. */
int input_plan_read(struct input_plan *plan, const char *path, struct error *err);
/* Is the file at 'path', DIRECTORY/plan, a plan, complete or not? Returns 1 (also if it is gone),
 * 0, or -1 if it cannot be read, or belongs to an earlier build, whose work directory has another
 * layout. */
int input_plan_is(const char *path, struct error *err);

/* List the chunks that consist of a single file which could not be cut, and which are much larger
 * than the others, largest first. They are started first, so that they do not delay the end. The
 * caller frees '*list'. Returns their number. */
size_t input_plan_large_chunks(const struct input_plan *plan, int64_t chunk_bytes, size_t **list);

/* The size of a chunk on disk. */
int64_t input_plan_chunk_bytes(const struct input_plan *plan, size_t chunk);

#endif

/* The plan of a run: which files, cut into which chunks. Made once by rank 0 and read by all.
 *
 * A chunk is a list of file ranges, done by one rank at a time; its result depends on the plan and
 * on nothing else: not on the number of ranks or threads, not on who does it, not on when. So a
 * chunk can be done again by anyone, and doing one twice does no harm. The identity of the plan is
 * a checksum over all that the results depend on: options, tokenizer files and the special ids read
 * from them, names, sizes and times of the input. A run with another identity never meets the
 * chunks of this one. */
#ifndef MEGATRON_PREPROCESS_PLAN_H
#define MEGATRON_PREPROCESS_PLAN_H

#include "files.h"
#include "preprocess.h"
#include "records.h"

/* Up to so many files are each named when they are opened; more are only counted. */
enum { PLAN_NAMED_FILES = 64 };

struct plan {
    uint64_t identity;
    struct corpus_files files;
    struct segment *segments;
    size_t segment_count;
    size_t *chunks; /* chunk i is segments [chunks[i], chunks[i + 1]) */
    size_t chunk_count;
    int64_t input_bytes; /* on disk */
};

/* Look at the input and cut it; 'tokenizer' is the one of 'config'. Caller must clear in both
 * cases.
 */
int plan_make(struct plan *plan, const struct preprocess_config *config,
              const struct tokenizer *tokenizer, struct error *err);
void plan_clear(struct plan *plan);

/* Cut the files in 'plan' into segments and chunks of about 'chunk_bytes' on disk (0: by the size
 * of the input); '*target' becomes the size that was used. The identity is the caller's. */
int plan_cut(struct plan *plan, enum record_mode mode, int64_t chunk_bytes, int64_t *target,
             struct error *err);

int plan_write(const struct plan *plan, const char *path, struct error *err);
/* Returns 0; 1 where there is no whole plan at 'path'; -1 on error. */
int plan_read(struct plan *plan, const char *path, struct error *err);

/* The chunks that are one file which could not be cut, and much larger than the others: largest
 * first. Whoever begins with them ends no later than the rest. The caller frees '*list'. Returns
 * their number, or SIZE_MAX when memory is out. */
size_t plan_large_chunks(const struct plan *plan, const struct preprocess_config *config,
                         size_t **list);

/* Bytes on disk of a chunk. */
int64_t plan_chunk_bytes(const struct plan *plan, size_t chunk);

#endif

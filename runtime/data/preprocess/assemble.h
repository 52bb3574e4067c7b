/* SPDX-License-Identifier: Apache-2.0 */
/* Copies parts to their positions in the output files. Any rank can copy any part, in any order. */
#ifndef MEGATRON_PREPROCESS_ASSEMBLE_H
#define MEGATRON_PREPROCESS_ASSEMBLE_H

#include "output_layout.h"

/* The final path of an output file. 'extension' is "bin", "idx" or DATA_IDENTITY_ENDING. */
int output_path(const struct preprocess_config *config, size_t key, size_t shard,
                const char *extension, char *path, struct error *err);

struct assembly {
    const struct preprocess_config *config;
    struct encode *encode;
    struct tokenizer_identity made_by;
    const struct output_layout *layout;
};

/* Create the files at their full size, with headers, as the work of 'job'. Idempotent. */
int assembly_create(struct assembly *assembly, struct job *job, struct error *err);

/* Copy the parts of chunks [first, end), as the work of 'job', and bring them to disk. */
int assembly_copy(struct assembly *assembly, struct job *job, size_t first, size_t end,
                  struct error *err);

/* Rename all files to their final names and write the identity files, which name the tokenizer.
 * Idempotent: continues an interrupted call. */
int assembly_finish(struct assembly *assembly, struct error *err);

#endif

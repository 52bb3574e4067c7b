/* SPDX-License-Identifier: Apache-2.0 */
/* Copies parts to their positions in the output files. Any rank can copy any part, in any order. */
#ifndef MEGATRON_PREPROCESS_ASSEMBLE_H
#define MEGATRON_PREPROCESS_ASSEMBLE_H

#include "output_layout.h"

/* The final path of an output file. 'extension' is "bin", "idx" or DATA_IDENTITY_ENDING. */
int output_path(const struct preprocess_config *config, size_t key, size_t shard,
                const char *extension, char *path, struct error *err);

/* Output files are opened on demand, a limited number at a time. */
struct open_file {
    size_t number; /* encodes shard, key and extension */
    int fd, users;
    uint64_t used; /* the turn of the last use */
};

struct assembly {
    const struct preprocess_config *config;
    struct encode *encode;
    struct tokenizer_identity made_by;
    const struct output_layout *layout;
    int32_t *slots; /* by file number: index in 'open', or -1 */
    struct open_file *open;
    size_t open_count, open_limit;
    uint64_t turn;
    pthread_mutex_t lock;
};

void assembly_init(struct assembly *assembly);
void assembly_clear(struct assembly *assembly);

/* Create the files at their full size, with headers, as the work of 'job'. Idempotent. */
int assembly_create(struct assembly *assembly, struct job *job, struct error *err);

/* Copy the part of one chunk, as the work of 'job'. */
int assembly_copy(struct assembly *assembly, struct job *job, size_t chunk, struct error *err);

/* Sync what this rank wrote; 'moved' is called while there is progress. */
int assembly_sync(struct assembly *assembly, void (*moved)(void *context), void *context,
                  struct error *err);

/* Rename all files to their final names and write the identity files, which name the tokenizer.
 * Idempotent: continues an interrupted call. */
int assembly_finish(struct assembly *assembly, struct error *err);

#endif

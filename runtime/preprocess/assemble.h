/* Parts -> the final files: every piece is copied to its place, by any rank, in any order. */
#ifndef MEGATRON_PREPROCESS_ASSEMBLE_H
#define MEGATRON_PREPROCESS_ASSEMBLE_H

#include "places.h"

/* Names of the output: the final one and the one in the work directory. 'extension' is "bin" or
 * "idx". */
int output_path(const char *prefix, const char *key, size_t shard, size_t shards,
                const char *extension, char *path, struct error *err);

/* Output files are opened as they are needed, and only so many at a time. */
struct open_file {
    size_t number; /* by shard, key and extension */
    int fd, users;
    uint64_t used; /* when, in turns */
};

struct assembly {
    const struct preprocess_config *config;
    struct work *work;
    struct board *parts; /* knows the names of the parts */
    const struct places *layout;
    int32_t *slots; /* by number of the file: where it is in 'open'; -1: it is not */
    struct open_file *open;
    size_t open_count, open_limit;
    uint64_t turn;
    pthread_mutex_t lock;
};

int assembly_init(struct assembly *assembly, struct error *err);
void assembly_clear(struct assembly *assembly);

/* Create the files in their sizes, with the headers, and go on with 'claim', the layout's job.
 * Doing it again changes nothing. */
int assembly_create(struct assembly *assembly, struct board *claim, struct error *err);

/* Copy one chunk. Returns 0; 1 where its part is torn and was removed; -1. */
int assembly_copy(struct assembly *assembly, size_t chunk, struct error *err);

/* Bring what this rank wrote to the disk; 'moved' is called for as long as that gets on. */
int assembly_sync(struct assembly *assembly, void (*moved)(void *context), void *context,
                  struct error *err);

/* Give all files their final names. What an interrupted call did is not done again. */
int assembly_finish(struct assembly *assembly, struct error *err);

#endif

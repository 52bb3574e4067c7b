/* The front of the output: in a run of one rank, a chunk that is made when all before it are made
 * has its place already. Its tokens go straight there, into a file that becomes the output, and its
 * part holds the rest. Chunks that are made out of order are parts with tokens, copied at the end.
 */
#ifndef MEGATRON_PREPROCESS_FRONT_H
#define MEGATRON_PREPROCESS_FRONT_H

#include "places.h"
#include "preprocess.h"

struct front {
    struct work *work;
    struct board *board;
    size_t keys, id_size;
    int open;
    size_t next;        /* the first chunk that is not made */
    struct place place; /* where it begins */
    int fds[PART_KEYS];
    int64_t unsynced[PART_KEYS]; /* from this byte on nobody has told the kernel to write */
};

/* The file that the tokens of a key go to. */
int front_path(const struct work *work, size_t key, char *path, struct error *err);

/* Begin behind the chunks that an earlier run has made. Where the places of chunks cannot be known
 * before the end (several ranks, --output-shards, --max-documents) it stays shut, and front_at is
 * never true. */
int front_open(struct front *front, const struct preprocess_config *config, struct work *work,
               struct board *board, size_t id_size, struct error *err);
void front_close(struct front *front);

/* Is this the chunk whose place is known? */
int front_at(const struct front *front, size_t chunk);

/* Write tokens of 'key' that belong behind 'token' others. */
int front_write(struct front *front, size_t key, int64_t token, const struct token_buffer *tokens,
                struct error *err);

/* A chunk is made: go on behind it and those after it that are made. */
void front_pass(struct front *front, size_t chunk);

#endif

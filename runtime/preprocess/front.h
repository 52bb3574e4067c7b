/* The front of the output: in a run of one rank, a chunk that is made when all before it are made
 * has its place already. Its tokens go straight there, into a file that becomes the output, and its
 * part holds the rest. Chunks that are made out of order are parts with tokens, copied at the end.
 *
 * The file is written past the page cache where the file system can: filling fresh pages costs more
 * than half of what it costs to read the input's JSON. A thread of its own does it, so that a slow
 * disk holds nobody up before it must. A part may be there before its tokens are on disk; its
 * checksum tells whoever goes on after a kill. */
#ifndef MEGATRON_PREPROCESS_FRONT_H
#define MEGATRON_PREPROCESS_FRONT_H

#include "places.h"
#include "preprocess.h"

/* What is collected of one key, to be written at once. */
struct front_file {
    int fd, direct; /* direct: it can be written past the page cache */
    char *buffer;
    int64_t begin;     /* of the buffer in the file */
    size_t from, fill; /* what is collected in it */
};

struct front {
    struct work *work;
    struct board *board;
    size_t keys, id_size;
    int open;
    size_t next;        /* the first chunk that is not made */
    struct place place; /* where it begins */
    struct front_file files[PART_KEYS];
    char *buffers; /* the memory of all of them, and of the one that is being written */
    /* The thread that writes, and what it is to write: the size is 0 when that is done. */
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *buffer;
    size_t key, from, size;
    int64_t at;
    int writing, stop, failed;
    struct error err;
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

/* Write tokens of 'key' that belong behind 'token' others; sooner or later. */
int front_write(struct front *front, size_t key, int64_t token, const struct token_buffer *tokens,
                struct error *err);

/* Write all of it now. */
int front_flush(struct front *front, struct error *err);

/* A chunk is made: go on behind it and those after it that are made. */
int front_pass(struct front *front, size_t chunk, struct error *err);

#endif

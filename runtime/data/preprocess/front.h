/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the output: a single rank knows the position of a chunk as soon as all chunks before
 * it are done. The tokens of such a chunk are written straight to a file that becomes the output,
 * and its part contains only the rest. Chunks that are encoded out of order become parts with
 * tokens, which are copied at the end.
 *
 * The file is written with O_DIRECT if the file system supports it: filling new pages of the page
 * cache costs more than half as much as parsing the input's JSON. On two cores and a local disk the
 * front saves about a tenth of the time of a large run with GPT-2's tokenizer. A separate thread
 * writes, so that a slow disk does not block the encoders earlier than necessary. A part may exist
 * before its tokens are on disk; its checksum shows that after a crash. */
#ifndef MEGATRON_PREPROCESS_FRONT_H
#define MEGATRON_PREPROCESS_FRONT_H

#include "output_layout.h"
#include "preprocess.h"

/* The tokens of one key that were collected for the next write. */
struct front_file {
    int fd, direct; /* direct: opened with O_DIRECT */
    char *buffer;
    int64_t begin;     /* the buffer's offset in the file */
    size_t from, fill; /* the filled range */
};

struct front {
    struct work *work;
    struct board *board;
    size_t keys, id_size;
    int open;
    size_t next;              /* the first chunk that is not done */
    struct position position; /* its position */
    struct front_file files[PART_KEYS];
    char *buffers; /* the memory of all buffers, including the one being written */
    /* The writer thread and its task; size 0: none. */
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

/* Open the front after the chunks that an earlier launch has done. If positions cannot be known
 * before the end (several ranks, several shards, a limit on documents) it stays closed, and
 * front_at is never true. */
int front_open(struct front *front, const struct preprocess_config *config, struct work *work,
               struct board *board, size_t id_size, struct error *err);
void front_close(struct front *front);

/* Is this the chunk whose position is known? */
int front_at(const struct front *front, size_t chunk);

/* Append tokens of 'key', which come after 'token' others, to the buffer. */
int front_write(struct front *front, size_t key, int64_t token, const struct token_buffer *tokens,
                struct error *err);

/* Flush all buffers. */
int front_flush(struct front *front, struct error *err);

/* A chunk is done: advance past it and those after it that are done. */
int front_pass(struct front *front, size_t chunk, struct error *err);

#endif

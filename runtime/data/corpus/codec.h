/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: shared by the codecs. */
#ifndef MEGATRON_CORPUS_CODEC_H
#define MEGATRON_CORPUS_CODEC_H

#include "lib/file.h"
#include "source.h"

enum { INPUT_SIZE = 1 << 17 };

/* Buffered reading of the compressed bytes. */
struct input {
    int fd;
    int seekable;
    int64_t position; /* offset of the byte at 'at' in the file */
    unsigned char *bytes;
    size_t at, have;
    int ended;
};

struct source {
    ssize_t (*read)(struct source *source, void *buffer, size_t size, struct error *err);
    void (*finish)(struct source *source);
    char *path;
    struct input input;
    int64_t begin, end, size;
    int64_t delivered, boundary;
    size_t memory;
    int truncated; /* the file is truncated */
    void *state;
};

/* Fill the buffer to at least 'want' bytes (at most INPUT_SIZE) from input->bytes + input->at on;
 * fewer only at the end of the file. Returns the number available, or -1. */
ssize_t input_fill(struct source *source, size_t want, struct error *err);
void input_take(struct source *source, size_t count);

/* Two functions per codec. start: prepare source->state and the functions. can_cut: see
 * source_can_cut. */
int gzip_start(struct source *source, struct error *err);
int gzip_can_cut(int fd, int64_t size);
int xz_start(struct source *source, struct error *err);
int xz_can_cut(int fd, int64_t size);
int zstd_start(struct source *source, struct error *err);
int zstd_can_cut(int fd, int64_t size);
int bzip2_start(struct source *source, struct error *err);

int source_truncated(struct source *source, struct error *err);
int source_corrupt(const struct source *source, const char *what, struct error *err);

#endif

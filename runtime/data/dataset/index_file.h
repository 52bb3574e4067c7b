/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the index cache: a few arrays of numbers and a text that describes what they were built
 * from. A file gets its name only when it is complete, so any number of ranks on any number of
 * nodes can look for it at the same time. */
#ifndef MEGATRON_INDEX_FILE_H
#define MEGATRON_INDEX_FILE_H

#include <stdint.h>
#include "lib/error.h"

enum { INDEX_ARRAYS = 3, INDEX_VALUES = 8 };

/* The contents of a file besides its description. */
struct index_layout {
    struct {
        int64_t count;
        int64_t width; /* bytes per element; 0: there is no such array */
    } array[INDEX_ARRAYS];
    int64_t value[INDEX_VALUES];
};

struct index_file;

/* Read 'count' elements of array 'which', starting at 'first'. Returns 0, or -1: outside the array,
 * or the file cannot be read (it is never mapped: see indexed.h). */
int index_file_read(const struct index_file *file, int which, int64_t first, int64_t count,
                    void *out, struct error *err);
const struct index_layout *index_file_layout(const struct index_file *file);
const char *index_file_path(const struct index_file *file);
void index_file_close(struct index_file *file);

/* A file being written: first its layout, then ranges of its arrays, in any order and by any number
 * of threads. Written data can be read back. */
struct index_writer;
int index_writer_layout(struct index_writer *writer, const struct index_layout *layout,
                        struct error *err);
int index_writer_write(struct index_writer *writer, int which, int64_t first, int64_t count,
                       const void *data, struct error *err);
int index_writer_read(const struct index_writer *writer, int which, int64_t first, int64_t count,
                      void *out, struct error *err);

typedef int index_builder(void *arg, struct index_writer *writer, struct error *err);

/* Where files are searched and written to. */
struct index_place {
    const char *directories[2]; /* best first; NULL: there is none */
    double deadline;            /* seconds to wait for another process that builds the same file */
};

struct index_request {
    const struct index_place *place;
    const char *kind;        /* part of the file's name: "GPTDataset-train" */
    const char *description; /* everything that determines the content; its hash is part of the
                                file name */
    index_builder *build;
    void *arg;
};

/* Get the file of 'request' from the first directory that has it; otherwise build it in the first
 * one that is writable. If many processes ask at once, the one that takes the heartbeat lease
 * NAME.lock (lease.h) builds; the others poll. A lease without a heartbeat for 30 s, or whose
 * process on this host has exited, is taken over. If two processes build anyway, because one was
 * stopped for a long time, only time is lost: each writes its own draft and renames it. Returns
 * NULL with 'err' set; after the deadline it names the holder, and code ERROR_NO_CACHE means that
 * no directory is writable. */
struct index_file *index_file_get(const struct index_request *request, struct error *err);

/* --- Within index_*.c: index_file.c has the contents of a file, index_cache.c decides which
 * process builds it. */

/* Open 'path' and check it against 'description'. '*file' is NULL and the result 0 if there is no
 * such file or it is incomplete (it is then built again). Returns -1 if it exists and cannot be
 * opened or read. */
int index_file_open(const char *path, const char *description, struct index_file **file,
                    struct error *err);

/* Create the file 'path', to be renamed later. */
struct index_writer *index_writer_create(const char *path, const char *description,
                                         struct error *err);
/* Everything is written: add the header and sync it to disk. */
int index_writer_finish(struct index_writer *writer, struct error *err);
void index_writer_destroy(struct index_writer *writer);

#endif

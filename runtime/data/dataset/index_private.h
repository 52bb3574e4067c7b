/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by index_file.c (the contents of a file) and index_cache.c (which process builds it). */
#ifndef MEGATRON_DATASET_INDEX_PRIVATE_H
#define MEGATRON_DATASET_INDEX_PRIVATE_H

#include "index_file.h"

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

/* Shared by index_file.c (what is in a file) and index_cache.c (who makes it). */
#ifndef MEGATRON_DATASET_INDEX_PRIVATE_H
#define MEGATRON_DATASET_INDEX_PRIVATE_H

#include "index_file.h"

/* Open 'path' and check it against 'description'. '*file' is NULL, and the result 0, where there is
 * no such file or it is not a whole one (it is then built anew). Returns -1 where it is there and
 * cannot be opened or read. */
int index_file_open(const char *path, const char *description, struct index_file **file,
                    struct error *err);

/* A new file 'path', to be given its name later. */
struct index_writer *index_writer_create(const char *path, const char *description,
                                         struct error *err);
/* All is written: bring it to the disk. */
int index_writer_finish(struct index_writer *writer, struct error *err);
void index_writer_destroy(struct index_writer *writer);

#endif

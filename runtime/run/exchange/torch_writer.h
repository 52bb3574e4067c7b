/* SPDX-License-Identifier: Apache-2.0 */
/* Files in the zip format of torch.save, written forwards: a pickle, then the storages of its
 * tensors. Several can follow each other in one file, as in torch.distributed.checkpoint. */
#ifndef MEGATRON_TORCH_WRITER_H
#define MEGATRON_TORCH_WRITER_H

#include "engine/device/device.h"
#include "lib/error.h"
#include "pickle_writer.h"

struct torch_writer {
    int fd;
    const char *path;  /* for errors */
    int64_t begin, at; /* of the file: where the archive begins, and where writing continues */
    char *list;        /* the list of members for its end */
    size_t size, room, count;
    int64_t storages;
};

/* Begin an archive at byte 'at' with a complete pickle. Returns 0 or -1; call torch_writer_clear in
 * all cases. 'path' must outlive the writer. */
int torch_writer_begin(struct torch_writer *writer, int fd, const char *path, int64_t at,
                       const struct pickle_writer *pickle, struct error *err);

/* Write the next storage: tensors refer to them by their number, from 0 on. */
int torch_writer_add(struct torch_writer *writer, const void *bytes, size_t size,
                     struct error *err);

/* Finish the archive, which then ends at 'at'. */
int torch_writer_end(struct torch_writer *writer, struct error *err);
void torch_writer_clear(struct torch_writer *writer);

/* A tensor that is the whole storage 'number'. */
void torch_put_tensor(struct pickle_writer *pickle, int64_t number, enum device_type type,
                      const int64_t *shape, int dimensions);

/* A type: torch.float32. */
void torch_put_type(struct pickle_writer *pickle, enum device_type type);

#endif

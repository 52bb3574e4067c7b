/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read distributed checkpoints. */
#ifndef MEGATRON_TORCH_DIST_PRIVATE_H
#define MEGATRON_TORCH_DIST_PRIVATE_H

#include "torch_dist.h"

#include "base/core/list.h"
#include "lib/file.h"

/* A part of a tensor, within its bounds, and where it is stored. */
struct torch_dist_chunk {
    int64_t offset[TORCH_DIMENSIONS], size[TORCH_DIMENSIONS];
    struct pickle_text file;
    int64_t at, length; /* bytes of the file */
};

/* A mapped *.distcp file. */
struct torch_dist_file {
    struct pickle_text name;
    void *bytes;
    size_t size;
};

struct torch_dist {
    char *directory;
    struct file_bytes index; /* the bytes of .metadata */
    struct torch_dist_tensor *tensors;
    size_t tensor_count;
    LIST(struct torch_dist_chunk) chunks;
    LIST(struct torch_dist_file) files;
};

/* Order texts by their bytes. */
int torch_dist_compare(struct pickle_text a, struct pickle_text b);

/* Fill in tensors and chunks from the index. */
int torch_dist_list(struct torch_dist *dist, const struct pickle_value *root, struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Files written by torch.save, in the zip format and in the stream format before PyTorch 1.6: the
 * pickle, and the tensors it refers to, memory-mapped. Nothing in the file is executed. */
#ifndef MEGATRON_TORCH_FILE_H
#define MEGATRON_TORCH_FILE_H

#include "pickle.h"

enum torch_type {
    TORCH_FLOAT,
    TORCH_HALF,
    TORCH_BFLOAT16,
    TORCH_DOUBLE,
    TORCH_LONG,
    TORCH_INT,
    TORCH_SHORT,
    TORCH_CHAR,
    TORCH_BYTE,
    TORCH_BOOL,
};

enum { TORCH_DIMENSIONS = 8 };

/* A view of a part of the file; everything it can reach is within the file. */
struct torch_tensor {
    enum torch_type type;
    int dimensions;
    int64_t shape[TORCH_DIMENSIONS], stride[TORCH_DIMENSIONS]; /* in elements */
    const unsigned char *data;
};

struct torch_file;

/* Returns NULL with 'err' set, without the path. Caller must destroy. */
struct torch_file *torch_file_open(const char *path, struct error *err);

/* Open a file that is in memory; the bytes must outlive it. */
struct torch_file *torch_file_read(const void *bytes, size_t size, struct error *err);
void torch_file_destroy(struct torch_file *file);

const struct pickle_value *torch_file_root(const struct torch_file *file);

/* Would PyTorch create a tensor from it, of a known type or not? */
int torch_is_tensor(const struct pickle_value *value);

/* The tensor that 'value' describes; -1 if it is not a tensor or its data is damaged. */
int torch_file_tensor(struct torch_file *file, const struct pickle_value *value,
                      struct torch_tensor *tensor, struct error *err);

/* Make 'tensor' the part 'index' of its first dimension. */
void torch_tensor_pick(struct torch_tensor *tensor, int64_t index);

/* Read 'count' elements from (row, col) on of a matrix, or from 'col' on of a vector. */
void torch_tensor_read(const struct torch_tensor *tensor, int64_t row, int64_t col, int64_t count,
                       float *out);

#endif

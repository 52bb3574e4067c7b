/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files: u64 length of a JSON header, the header, the data. */
#ifndef MEGATRON_SAFETENSORS_H
#define MEGATRON_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/device/device.h"
#include "lib/error.h"

/* One tensor within a memory-mapped file. */
struct safetensor {
    char name[128];
    char kind[16];         /* the type as named in the file */
    enum device_type type; /* fp32, bf16 or fp16 */
    int64_t rows, cols;    /* vectors have one row */
    const void *data;      /* NULL: another type, or more than two dimensions */
};

/* All tensors of a directory or file. */
struct safetensors;

/* Open 'path': a file, or a directory with model.safetensors or, if that does not exist, with
 * several files and model.safetensors.index.json. Everything in a header is checked against the
 * file: tensors must fill it without gaps and overlaps, and names must be unique. Returns NULL with
 * 'err' set. Caller must destroy. */
struct safetensors *safetensors_open(const char *path, struct error *err);
void safetensors_destroy(struct safetensors *tensors);

/* The tensor called 'name', or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *tensors, const char *name);

/* Iterate over all tensors, by name: NULL after the last. */
const struct safetensor *safetensors_at(const struct safetensors *tensors, size_t number);

/* Read 'count' elements of a tensor, from index 'first' on, with a stride of 'step'. */
void safetensor_read(const struct safetensor *tensor, int64_t first, int64_t step, int64_t count,
                     float *out);

/* Do both have the same elements? */
bool safetensor_equal(const struct safetensor *one, const struct safetensor *other);

/* A file written by several processes: each creates the same list of tensors, in the same order,
 * and writes its parts of the data. */
struct safetensors_layout {
    struct safetensors_entry {
        char name[128];
        int64_t rows, cols; /* rows 0: a vector */
        size_t offset;      /* within the file, after safetensors_layout_finish */
    } * entries;
    size_t count;
    enum device_type type;
    size_t data_bytes;
    char *header; /* the file up to the data; valid after safetensors_layout_finish */
    size_t header_bytes;
};

void safetensors_layout_add(struct safetensors_layout *layout, const char *name, int64_t rows,
                            int64_t cols);
void safetensors_layout_finish(struct safetensors_layout *layout);
const struct safetensors_entry *safetensors_layout_find(const struct safetensors_layout *layout,
                                                        const char *name);
void safetensors_layout_clear(struct safetensors_layout *layout);

#endif

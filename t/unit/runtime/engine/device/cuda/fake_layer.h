/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of the CUDA device on the fakes of fake_products.h, planned as a newly started
 * process would, with tuning files in a directory of their own. */
#ifndef FAKE_LAYER_H
#define FAKE_LAYER_H

#include "engine/device/cuda/cuda.h"
#include "fake_products.h"

struct layer {
    struct cuda_device device;
    struct cuda_plan plan;
    struct error err;
    int rc;
};

extern char directory[64], workspace[64];

/* Create the directory, and remove it with its files. */
int directory_create(void);
void directory_remove(void);

/* Remove the file of tuning results, or another one. */
void remove_file(void);
void remove_named(const char *name);

/* Plan a layer of any shape, or one with a GELU and 16 rows. */
void begin_shape(struct layer *l, int deterministic, enum operation_kind kind,
                 const struct linear_shape *shape);
void begin(struct layer *l, int deterministic);
void end(struct layer *l);
struct linear_shape gelu_layer(int64_t rows);

/* The shape of a small product. */
struct gemm_shape product_shape(int rows, int transpose_a);

/* How many lines of the process's choices start with 'key' and end with 'end'? */
int count_lines(const struct layer *l, const char *key, const char *end);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN: exact softmax(Q K^T * scale) V without the scores in memory, and its
 * gradient; our own kernels (FLASH_OURS) support some shapes, too. 16-bit elements; any strides
 * with the elements of a head contiguous. */
#ifndef MEGATRON_FLASH_H
#define MEGATRON_FLASH_H

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

/* Strides of one operand, in elements. */
struct flash_strides {
    int64_t batch, head, position;
};

struct flash_shape {
    int64_t batch;
    int64_t heads;  /* of queries */
    int64_t groups; /* of keys and values; divides heads */
    int64_t queries, keys;
    int64_t width; /* of a head */
    struct flash_strides q, k, v, o;
    struct flash_strides dq, dk, dv; /* dO is laid out like O */
    cudnnDataType_t type;
    float scale;
    double dropout;    /* on the probabilities, with the library's own random numbers */
    int causal;        /* query i sees keys 0 .. i + keys - queries */
    int documents;     /* a query does not see keys before its 'start' */
    int ends;          /* a query does not see keys from its 'end' on */
    int deterministic; /* needed for the gradient; cuDNN then uses batch * heads * queries * keys
                        * 2 bytes */
};

/* The number of our kernels among the choices; cuDNN's are numbered from 0. */
enum { FLASH_OURS = 100 };

struct flash;

/* Plan one direction, forward or the gradient, with kernel number 'choice' of those that cuDNN
 * offers, its best guess first, or with FLASH_OURS. NULL with 'err' set if there is no such kernel
 * or it cannot be used here. */
struct flash *flash_create(cudnnHandle_t handle, const struct flash_shape *shape, int backward,
                           int choice, struct error *err);
void flash_destroy(struct flash *flash);

/* Bytes of workspace for a run. */
size_t flash_workspace(const struct flash *flash);

/* Which keys each query sees, [batch][queries]: from 'start' up to, but not including, 'end'. NULL
 * if the shape has no 'documents' or 'ends'. Every query sees at least one key. */
struct flash_bounds {
    const int32_t *start, *end;
};

/* These run on the stream of the handle. With dropout 'seed' is two 64-bit numbers on the device,
 * the same for both directions. 'lse' [batch][heads][queries] receives the log-sum-exp of the
 * scaled scores. */
int flash_forward(const struct flash *flash, const void *q, const void *k, const void *v, void *o,
                  float *lse, const int64_t *seed, struct flash_bounds bounds, void *workspace,
                  struct error *err);
int flash_backward(const struct flash *flash, const void *q, const void *k, const void *v,
                   const void *o, const float *lse, const void *d_o, void *dq, void *dk, void *dv,
                   const int64_t *seed, struct flash_bounds bounds, void *workspace,
                   struct error *err);

#endif

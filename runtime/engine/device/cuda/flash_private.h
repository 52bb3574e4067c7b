/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of flash.c: the object and the descriptions of cuDNN's graphs. */
#ifndef MEGATRON_FLASH_PRIVATE_H
#define MEGATRON_FLASH_PRIVATE_H

#include "cudnn_graph.h"
#include "flash.h"

/* Rows of the tensor tables. Both graphs share one numbering; each uses some of the rows. */
enum row {
    Q,
    KT,
    V,
    VT,
    O,
    LSE,
    D_O,
    DQ,
    DK,
    DV,
    SCALE,
    MINUS_INFINITY,
    ONE,
    QUERIES,
    KEYS,
    S,
    SCALED,
    ROW,
    COLUMN,
    VISIBLE,
    MASKED,
    START,
    STARTED,
    IN_DOCUMENT,
    SEEN_QUERIES,
    SEEN_KEYS,
    ROW_AHEAD,
    ROW_SHIFTED,
    PAD_ROW,
    PAD_COLUMN,
    ROW_IN,
    COLUMN_IN,
    BOTH_IN,
    PADDED,
    MAXIMUM,
    SHIFTED,
    EXPONENT,
    SUM,
    LOG_SUM,
    P,
    O_DO,
    O_DO_SUM,
    DELTA,
    LESS_LSE,
    P_T,
    DV_HEADS,
    DP,
    DP_LESS,
    DP_P,
    DS,
    DS_T,
    DK_HEADS,
    K_PLAIN,
    DQ_SUM,
    SEED,
    OFFSET,
    KEPT,
    KEPT_SCALE,
    KEPT_SHARE,
    P_KEPT,
    P_SCALED,
    DP_KEPT,
    DP_SCALED,
    END,
    BEFORE_END,
    IN_BOUNDS,
    ROW_COUNT,
};

struct flash {
    struct flash_shape shape;
    struct cudnn_graph *graph; /* NULL: our own kernels */
    cudnnHandle_t handle;
    int32_t queries, keys;
    int padded; /* the length must be passed to the library; not needed for a multiple of 128 */
    float scale, minus_infinity, one;
    float kept_scale, kept_share; /* of dropout: 1 / (1 - p), 1 - p */
    int32_t *lengths; /* padded: query lengths of the batch, then key lengths, on the device */
    size_t delta_bytes, dq_bytes; /* parts of the workspace that are tensors of the graph */
    size_t workspace;
};

/* Describe the graph of one direction: 'tensors' has ROW_COUNT rows, 'operations' room for all of
 * them and the end. Both are zero before. */
void flash_graph_forward(struct graph_tensor *tensors, struct graph_operation *operations,
                         const struct flash *flash);
void flash_graph_backward(struct graph_tensor *tensors, struct graph_operation *operations,
                          const struct flash *flash);

#endif

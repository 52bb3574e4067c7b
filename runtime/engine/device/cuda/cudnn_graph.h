/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of cuDNN operations described by tables: tensors and operations are rows, the result is an
 * execution plan. Only what attention needs: matmul, pointwise, reduction, reshape in 4 dimensions.
 */
#ifndef MEGATRON_CUDNN_GRAPH_H
#define MEGATRON_CUDNN_GRAPH_H

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

enum graph_place {
    GRAPH_INNER,  /* virtual: never in memory */
    GRAPH_MEMORY, /* a device pointer passed at each run */
    GRAPH_SCALAR, /* a host value, passed by address at each run */
};

/* One tensor. A row with dims[0] == 0 is unused. */
struct graph_tensor {
    enum graph_place place;
    cudnnDataType_t type;
    int64_t dims[4], strides[4];
};

enum graph_kind {
    GRAPH_END, /* ends a table */
    GRAPH_MATMUL,
    GRAPH_POINTWISE,
    GRAPH_REDUCE,
    GRAPH_RESHAPE,
    GRAPH_RANDOM, /* y = 1 with 'probability', else 0; a is the seed, b the offset */
};

#define GRAPH_NONE (-1)

/* One operation on tensors identified by their row: y = a op b; for BINARY_SELECT t ? a : b. */
struct graph_operation {
    enum graph_kind kind;
    int mode;                /* cudnnPointwiseMode_t or cudnnReduceTensorOp_t */
    cudnnDataType_t compute; /* precision of the arithmetic */
    int a, b, t, y;
    int64_t axis;             /* of GEN_INDEX */
    int rows, columns, inner; /* tensors with the actual sizes of a padded matmul, or GRAPH_NONE */
    double probability;       /* of GRAPH_RANDOM */
};

struct cudnn_graph;

/* Plan the graph on 'handle' with kernel number 'choice' of those that cuDNN offers, its best guess
 * first. On failure return NULL with cuDNN's reason in 'err'. Caller destroys. 'name' appears in
 * messages. */
struct cudnn_graph *cudnn_graph_create(cudnnHandle_t handle, const char *name,
                                       const struct graph_tensor *tensors, int tensor_count,
                                       const struct graph_operation *operations, int choice,
                                       struct error *err);
void cudnn_graph_destroy(struct cudnn_graph *graph);

/* Bytes of workspace a run needs. */
size_t cudnn_graph_workspace(const struct cudnn_graph *graph);

/* Run on the stream of the handle. pointers[i] belongs to row i of the tensor table (ignored for
 * inner tensors). */
int cudnn_graph_run(const struct cudnn_graph *graph, void *const *pointers, void *workspace,
                    struct error *err);

#endif

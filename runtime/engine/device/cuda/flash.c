/* SPDX-License-Identifier: Apache-2.0 */
#include "flash.h"
#include "cuda_error.h"
#include "base/core/xmalloc.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "flash_private.h"
#include "hopper_attention.h"

enum { LENGTH_MULTIPLE = 128, WORKSPACE_ALIGN = 256 };

static size_t align(size_t bytes)
{
    return (bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
}

static int make_lengths(struct flash *flash, struct error *err)
{
    size_t count = 2 * (size_t)flash->shape.batch;
    int32_t *host = xcalloc(count, sizeof(*host));
    cudaError_t status;

    for (size_t i = 0; i < count; i++)
        host[i] = (int32_t)(i < count / 2 ? flash->shape.queries : flash->shape.keys);
    status = cudaMalloc((void **)&flash->lengths, count * sizeof(*host));
    if (status == cudaSuccess)
        status = cudaMemcpy(flash->lengths, host, count * sizeof(*host), cudaMemcpyHostToDevice);
    free(host);
    if (status != cudaSuccess)
        return cuda_error(err, status, "cannot copy the lengths of attention to the GPU");
    return 0;
}

static int plan_graph(struct flash *flash, int backward, int choice, struct error *err)
{
    struct graph_operation operations[48] = {{GRAPH_END}};
    struct graph_tensor tensors[ROW_COUNT] = {{GRAPH_INNER}};
    const struct flash_shape *shape = &flash->shape;
    size_t rows = (size_t)(shape->batch * shape->heads * shape->queries);

    if (backward) {
        flash_graph_backward(tensors, operations, flash);
        flash->delta_bytes = align(rows * sizeof(float));
        if (!shape->deterministic)
            flash->dq_bytes = align(rows * (size_t)shape->width * sizeof(float));
    } else {
        flash_graph_forward(tensors, operations, flash);
    }
    flash->graph =
        cudnn_graph_create(flash->handle, backward ? "the gradient of attention" : "attention",
                           tensors, ROW_COUNT, operations, choice, err);
    if (!flash->graph)
        return -1;
    flash->workspace = flash->delta_bytes + flash->dq_bytes + cudnn_graph_workspace(flash->graph);
    return 0;
}

static int plan_cudnn(struct flash *flash, int backward, int choice, struct error *err)
{
    const struct flash_shape *shape = &flash->shape;

    flash->padded = shape->keys % LENGTH_MULTIPLE != 0 || shape->queries % LENGTH_MULTIPLE != 0;
    flash->scale = shape->scale;
    flash->minus_infinity = -INFINITY;
    flash->one = 1;
    flash->kept_share = (float)(1 - shape->dropout);
    flash->kept_scale = (float)(1 / (1 - shape->dropout));
    flash->queries = (int32_t)shape->queries;
    flash->keys = (int32_t)shape->keys;
    if (flash->padded && make_lengths(flash, err))
        return -1;
    return plan_graph(flash, backward, choice, err);
}

static int plan_ours(struct flash *flash, int backward, struct error *err)
{
    if (!hopper_attention_version(&flash->shape))
        return error_set(err,
                         "the built-in attention kernels do not support this shape on this GPU");
    flash->workspace = hopper_attention_workspace(&flash->shape, backward);
    return 0;
}

struct flash *flash_create(cudnnHandle_t handle, const struct flash_shape *shape, int backward,
                           int choice, struct error *err)
{
    struct flash *flash = xcalloc(1, sizeof(*flash));

    flash->shape = *shape;
    flash->handle = handle;
    if (choice == FLASH_OURS ? plan_ours(flash, backward, err)
                             : plan_cudnn(flash, backward, choice, err)) {
        flash_destroy(flash);
        return NULL;
    }
    return flash;
}

void flash_destroy(struct flash *flash)
{
    if (!flash)
        return;
    cudnn_graph_destroy(flash->graph);
    cudaFree(flash->lengths);
    free(flash);
}

size_t flash_workspace(const struct flash *flash)
{
    return flash->workspace;
}

static void common_pointers(void **pointers, const struct flash *flash, const int64_t *seed,
                            struct flash_bounds bounds)
{
    pointers[START] = (void *)bounds.start;
    pointers[END] = (void *)bounds.end;
    pointers[SEED] = (void *)seed;
    pointers[OFFSET] = (void *)(seed + 1);
    pointers[KEPT_SCALE] = (void *)&flash->kept_scale;
    pointers[KEPT_SHARE] = (void *)&flash->kept_share;
    pointers[SCALE] = (void *)&flash->scale;
    pointers[MINUS_INFINITY] = (void *)&flash->minus_infinity;
    pointers[ONE] = (void *)&flash->one;
    pointers[SEEN_QUERIES] = (void *)&flash->queries;
    pointers[SEEN_KEYS] = (void *)&flash->keys;
    if (flash->padded) {
        pointers[QUERIES] = flash->lengths;
        pointers[KEYS] = flash->lengths + flash->shape.batch;
    }
}

static int ours_failed(struct error *err)
{
    cudaError_t status = cudaGetLastError();

    if (status)
        return cuda_error(err, status, "cannot launch the built-in attention kernel");
    return error_bug(err, "the operands of the built-in attention kernel do not allow TMA loads");
}

int flash_forward(const struct flash *flash, const void *q, const void *k, const void *v, void *o,
                  float *lse, const int64_t *seed, struct flash_bounds bounds, void *workspace,
                  struct error *err)
{
    void *pointers[ROW_COUNT] = {NULL};
    cudaStream_t stream;

    if (!flash->graph) {
        if (cudnnGetStream(flash->handle, &stream) ||
            hopper_attention(stream, &flash->shape, q, k, v, o, lse, bounds, workspace))
            return ours_failed(err);
        return 0;
    }
    common_pointers(pointers, flash, seed, bounds);
    pointers[Q] = (void *)q;
    pointers[KT] = (void *)k;
    pointers[V] = (void *)v;
    pointers[O] = o;
    pointers[LSE] = lse;
    return cudnn_graph_run(flash->graph, pointers, workspace, err);
}

int flash_backward(const struct flash *flash, const void *q, const void *k, const void *v,
                   const void *o, const float *lse, const void *d_o, void *dq, void *dk, void *dv,
                   const int64_t *seed, struct flash_bounds bounds, void *workspace,
                   struct error *err)
{
    void *pointers[ROW_COUNT] = {NULL};
    char *space = workspace;
    cudaStream_t stream;

    if (!flash->graph) {
        if (cudnnGetStream(flash->handle, &stream) ||
            hopper_attention_gradient(stream, &flash->shape, q, k, v, o, lse, d_o, dq, dk, dv,
                                      bounds, workspace))
            return ours_failed(err);
        return 0;
    }
    common_pointers(pointers, flash, seed, bounds);
    pointers[Q] = (void *)q;
    pointers[KT] = (void *)k;
    pointers[VT] = (void *)v;
    pointers[O] = (void *)o;
    pointers[LSE] = (void *)lse;
    pointers[D_O] = (void *)d_o;
    pointers[DQ] = dq;
    pointers[DK] = dk;
    pointers[DV] = dv;
    pointers[DELTA] = space;
    pointers[DQ_SUM] = space + flash->delta_bytes;
    return cudnn_graph_run(flash->graph, pointers, space + flash->delta_bytes + flash->dq_bytes,
                           err);
}

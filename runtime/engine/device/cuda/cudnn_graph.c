/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's graphs through its C interface (backend descriptors) instead of cudnn-frontend. The
 * latter is a set of C++ headers that are not part of Debian or the CUDA toolkit (only of PyPI's
 * nvidia-cudnn-frontend), so a build would need one more download. It covers all of cuDNN, while we
 * need one kind of graph, attention; and it chooses and caches plans itself, which tuning.h does
 * here for all kernels. This file sets descriptors, queries the heuristic and runs plans. */
#include "cudnn_graph.h"
#include "base/core/xmalloc.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TENSORS = 96,
    MAX_OPERATIONS = 64,
    MAX_CANDIDATES = 16,
    MAX_DESCRIPTORS = MAX_TENSORS + 2 * MAX_OPERATIONS + MAX_CANDIDATES + 4,
};

struct cudnn_graph {
    cudnnHandle_t handle;
    const char *name;
    cudnnBackendDescriptor_t plan;
    cudnnBackendDescriptor_t parts[MAX_DESCRIPTORS]; /* the descriptors that the plan was created
                                                        from and may refer to */
    int part_count;
    size_t workspace;
    int used; /* tensors passed at each run */
    int rows[MAX_TENSORS];
    int64_t ids[MAX_TENSORS];
};

/* Descriptors created on the way to a plan. */
struct build {
    const char *name;
    struct error *err;
    cudnnBackendDescriptor_t all[MAX_DESCRIPTORS];
    int count;
};

static int fail(struct build *build, const char *what, cudnnStatus_t status)
{
    char text[512] = "";

    cudnnGetLastErrorString(text, sizeof(text));
    text[strcspn(text, "\n")] = '\0'; /* the first line is the reason, the others its location */
    return error_set(build->err,
                     "cuDNN %zu cannot plan %s: %s: %s (%s); install another version of cuDNN",
                     cudnnGetVersion(), build->name, what, cudnnGetErrorString(status), text);
}

static cudnnBackendDescriptor_t make(struct build *build, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &descriptor);

    if (status != CUDNN_STATUS_SUCCESS) {
        fail(build, "no descriptor", status);
        return NULL;
    }
    build->all[build->count++] = descriptor;
    return descriptor;
}

static int set(struct build *build, cudnnBackendDescriptor_t descriptor,
               cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
               const void *values)
{
    cudnnStatus_t status = cudnnBackendSetAttribute(descriptor, name, type, count, values);

    return status == CUDNN_STATUS_SUCCESS ? 0 : fail(build, "an attribute was rejected", status);
}

static int finalize(struct build *build, cudnnBackendDescriptor_t descriptor, const char *what)
{
    cudnnStatus_t status = cudnnBackendFinalize(descriptor);

    return status == CUDNN_STATUS_SUCCESS ? 0 : fail(build, what, status);
}

static cudnnBackendDescriptor_t make_tensor(struct build *build, const struct graph_tensor *tensor,
                                            int64_t id)
{
    cudnnBackendDescriptor_t d = make(build, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = 16;
    bool inner = tensor->place == GRAPH_INNER, scalar = tensor->place == GRAPH_SCALAR;

    if (!d || set(build, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type) ||
        set(build, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor->dims) ||
        set(build, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor->strides) ||
        set(build, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id) ||
        set(build, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment) ||
        (inner && set(build, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inner)) ||
        (scalar && set(build, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &scalar)) ||
        finalize(build, d, "a tensor"))
        return NULL;
    return d;
}

/* Set a descriptor attribute from a row of the tensor table; GRAPH_NONE sets nothing. */
static int set_tensor(struct build *build, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, const cudnnBackendDescriptor_t *tensors,
                      int row)
{
    if (row == GRAPH_NONE)
        return 0;
    return set(build, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[row]);
}

static cudnnBackendDescriptor_t make_matmul(struct build *build, const struct graph_operation *op,
                                            const cudnnBackendDescriptor_t *tensors)
{
    cudnnBackendDescriptor_t math = make(build, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnBackendDescriptor_t d = make(build, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);

    if (!math || !d ||
        set(build, math, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &op->compute) ||
        finalize(build, math, "matmul") ||
        set(build, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &math) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors, op->a) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors, op->b) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors, op->y) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, tensors, op->rows) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, tensors,
                   op->columns) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, tensors,
                   op->inner) ||
        finalize(build, d, "matmul operation"))
        return NULL;
    return d;
}

static cudnnBackendDescriptor_t make_pointwise(struct build *build,
                                               const struct graph_operation *op,
                                               const cudnnBackendDescriptor_t *tensors)
{
    cudnnBackendDescriptor_t math = make(build, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t d = make(build, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnnPointwiseMode_t mode = (cudnnPointwiseMode_t)op->mode;

    if (!math || !d ||
        set(build, math, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode) ||
        set(build, math, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &op->compute) ||
        (mode == CUDNN_POINTWISE_GEN_INDEX &&
         set(build, math, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &op->axis)) ||
        finalize(build, math, "pointwise") ||
        set(build, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            1, &math) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors, op->a) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors, op->b) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors, op->t) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors, op->y) ||
        finalize(build, d, "pointwise operation"))
        return NULL;
    return d;
}

static cudnnBackendDescriptor_t make_reduce(struct build *build, const struct graph_operation *op,
                                            const cudnnBackendDescriptor_t *tensors)
{
    cudnnBackendDescriptor_t math = make(build, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnBackendDescriptor_t d = make(build, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    cudnnReduceTensorOp_t mode = (cudnnReduceTensorOp_t)op->mode;

    if (!math || !d ||
        set(build, math, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &op->compute) ||
        set(build, math, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
            &mode) ||
        finalize(build, math, "reduction") ||
        set(build, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &math) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors, op->a) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors, op->y) ||
        finalize(build, d, "reduction operation"))
        return NULL;
    return d;
}

static cudnnBackendDescriptor_t make_reshape(struct build *build, const struct graph_operation *op,
                                             const cudnnBackendDescriptor_t *tensors)
{
    cudnnBackendDescriptor_t d = make(build, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    if (!d || set_tensor(build, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors, op->a) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors, op->y) ||
        finalize(build, d, "reshape operation"))
        return NULL;
    return d;
}

static cudnnBackendDescriptor_t make_random(struct build *build, const struct graph_operation *op,
                                            const cudnnBackendDescriptor_t *tensors)
{
    cudnnBackendDescriptor_t math = make(build, CUDNN_BACKEND_RNG_DESCRIPTOR);
    cudnnBackendDescriptor_t d = make(build, CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR);
    cudnnRngDistribution_t distribution = CUDNN_RNG_DISTRIBUTION_BERNOULLI;

    if (!math || !d ||
        set(build, math, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1,
            &distribution) ||
        set(build, math, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1,
            &op->probability) ||
        finalize(build, math, "random numbers") ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_RNG_YDESC, tensors, op->y) ||
        set(build, d, CUDNN_ATTR_OPERATION_RNG_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &math) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_RNG_SEED, tensors, op->a) ||
        set_tensor(build, d, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, tensors, op->b) ||
        finalize(build, d, "random operation"))
        return NULL;
    return d;
}

static cudnnBackendDescriptor_t make_operation(struct build *build,
                                               const struct graph_operation *op,
                                               const cudnnBackendDescriptor_t *tensors)
{
    switch (op->kind) {
    case GRAPH_MATMUL:
        return make_matmul(build, op, tensors);
    case GRAPH_POINTWISE:
        return make_pointwise(build, op, tensors);
    case GRAPH_REDUCE:
        return make_reduce(build, op, tensors);
    case GRAPH_RESHAPE:
        return make_reshape(build, op, tensors);
    case GRAPH_RANDOM:
        return make_random(build, op, tensors);
    default:
        return NULL;
    }
}

static int plan_candidate(struct build *build, struct cudnn_graph *graph,
                          cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t plan = NULL;
    int64_t size = 0, count = 0;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);

    if (status != CUDNN_STATUS_SUCCESS)
        return fail(build, "no descriptor", status);
    if (set(build, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &graph->handle) ||
        set(build, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &config) ||
        finalize(build, plan, "execution plan"))
        goto refused;
    status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                      CUDNN_TYPE_INT64, 1, &count, &size);
    if (status != CUDNN_STATUS_SUCCESS) {
        fail(build, "workspace size", status);
        goto refused;
    }
    graph->plan = plan;
    graph->workspace = (size_t)size;
    return 0;
refused:
    cudnnBackendDestroyDescriptor(plan);
    return -1;
}

/* Create a plan with engine configuration number 'choice' of the heuristics. */
static int plan_graph(struct build *build, struct cudnn_graph *graph,
                      cudnnBackendDescriptor_t operations, int choice)
{
    cudnnBackendDescriptor_t heuristics = make(build, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t configs[MAX_CANDIDATES];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t found = 0;
    cudnnStatus_t status;

    if (!heuristics ||
        set(build, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            1, &operations) ||
        set(build, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) ||
        finalize(build, heuristics, "heuristics"))
        return -1;
    for (int i = 0; i < MAX_CANDIDATES; i++) {
        configs[i] = make(build, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (!configs[i])
            return -1;
    }
    status =
        cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CANDIDATES, &found, configs);
    if (status != CUDNN_STATUS_SUCCESS)
        return fail(build, "no engine", status);
    if (found == 0)
        return error_set(
            build->err,
            "cuDNN %zu has no kernel for %s of this shape; install another version of cuDNN",
            cudnnGetVersion(), build->name);
    if (choice < 0 || choice >= found)
        return error_set(build->err,
                         "cuDNN has no other kernel for %s; install another version of cuDNN",
                         build->name);
    return plan_candidate(build, graph, configs[choice]);
}

static int build_graph(struct build *build, struct cudnn_graph *graph,
                       const struct graph_tensor *tensors, int tensor_count,
                       const struct graph_operation *operations, int choice)
{
    cudnnBackendDescriptor_t rows[MAX_TENSORS] = {NULL}, list[MAX_OPERATIONS], set_of_operations;
    int64_t count = 0;

    for (int i = 0; i < tensor_count; i++) {
        if (tensors[i].dims[0] == 0)
            continue;
        rows[i] = make_tensor(build, &tensors[i], i + 1);
        if (!rows[i])
            return -1;
        if (tensors[i].place != GRAPH_INNER) {
            graph->rows[graph->used] = i;
            graph->ids[graph->used++] = i + 1;
        }
    }
    for (; operations[count].kind != GRAPH_END; count++) {
        list[count] = make_operation(build, &operations[count], rows);
        if (!list[count])
            return -1;
    }
    set_of_operations = make(build, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (!set_of_operations ||
        set(build, set_of_operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
            &graph->handle) ||
        set(build, set_of_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            count, list) ||
        finalize(build, set_of_operations, "the set of operations"))
        return -1;
    return plan_graph(build, graph, set_of_operations, choice);
}

struct cudnn_graph *cudnn_graph_create(cudnnHandle_t handle, const char *name,
                                       const struct graph_tensor *tensors, int tensor_count,
                                       const struct graph_operation *operations, int choice,
                                       struct error *err)
{
    struct build build = {.name = name, .err = err};
    struct cudnn_graph *graph = xcalloc(1, sizeof(*graph));
    int result;

    assert(tensor_count <= MAX_TENSORS);
    graph->handle = handle;
    graph->name = name;
    result = build_graph(&build, graph, tensors, tensor_count, operations, choice);
    graph->part_count = build.count;
    memcpy(graph->parts, build.all, sizeof(graph->parts));
    if (result) {
        cudnn_graph_destroy(graph);
        return NULL;
    }
    return graph;
}

void cudnn_graph_destroy(struct cudnn_graph *graph)
{
    if (!graph)
        return;
    if (graph->plan)
        cudnnBackendDestroyDescriptor(graph->plan);
    for (int i = graph->part_count - 1; i >= 0; i--)
        cudnnBackendDestroyDescriptor(graph->parts[i]);
    free(graph);
}

size_t cudnn_graph_workspace(const struct cudnn_graph *graph)
{
    return graph->workspace;
}

int cudnn_graph_run(const struct cudnn_graph *graph, void *const *pointers, void *workspace,
                    struct error *err)
{
    struct build build = {.name = graph->name, .err = err};
    cudnnBackendDescriptor_t pack = make(&build, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void *given[MAX_TENSORS];
    cudnnStatus_t status;
    int result = -1;

    if (!pack)
        return -1;
    for (int i = 0; i < graph->used; i++)
        given[i] = pointers[graph->rows[i]];
    if (set(&build, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, graph->used,
            graph->ids) ||
        set(&build, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, graph->used,
            given) ||
        set(&build, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) ||
        finalize(&build, pack, "its arguments"))
        goto out;
    status = cudnnBackendExecute(graph->handle, graph->plan, pack);
    if (status != CUDNN_STATUS_SUCCESS) {
        fail(&build, "its plan does not run", status);
        goto out;
    }
    result = 0;
out:
    cudnnBackendDestroyDescriptor(pack);
    return result;
}

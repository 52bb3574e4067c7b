/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel of hopper_linear.cuh a linear layer needs, and how it is launched. */
#include "hopper_linear.h"
#include "hopper_linear.cuh"

namespace
{

template <typename T, activation ACTIVATION, bool GRADIENT, int PER_STAGE>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    linear_kernel(const __grid_constant__ struct linear_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];

    run_block<T, ACTIVATION, GRADIENT, PER_STAGE>(a,
                                                  reinterpret_cast<struct shared_memory *>(memory));
#endif
}

template <typename T, bool GRADIENT, int PER_STAGE> kernel kernel_of(enum activation activation)
{
    switch (activation) {
    case ACTIVATION_GELU_TANH:
        return linear_kernel<T, ACTIVATION_GELU_TANH, GRADIENT, PER_STAGE>;
    case ACTIVATION_GELU_ERF:
        return linear_kernel<T, ACTIVATION_GELU_ERF, GRADIENT, PER_STAGE>;
    default:
        return NULL;
    }
}

template <typename T, bool GRADIENT> kernel kernel_for(enum activation activation, int64_t depth)
{
    if (depth >= STRIPES * DEPTH)
        return kernel_of<T, GRADIENT, 1>(activation);
    return depth >= STRIPES / 2 * DEPTH ? kernel_of<T, GRADIENT, 2>(activation) : NULL;
}

kernel find_kernel(const struct linear_shape *s, int gradient)
{
    if (is_gated(s->activation))
        return (kernel)hopper_gated_kernel(s, gradient);
    if (s->types.x == TYPE_BF16)
        return gradient ? kernel_for<bf16, true>(s->activation, s->out)
                        : kernel_for<bf16, false>(s->activation, s->in);
    return gradient ? kernel_for<fp16, true>(s->activation, s->out)
                    : kernel_for<fp16, false>(s->activation, s->in);
}

/* Describe a matrix that is copied 'box_rows' rows of 'box_columns' elements at a time. */
bool describe(CUtensorMap *map, enum device_type type, const void *matrix, int64_t rows,
              int64_t columns, int box_rows, int box_columns = LINE / 2)
{
    const cuuint64_t dims[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    const cuuint64_t pitch[1] = {(cuuint64_t)columns * 2};
    const cuuint32_t box[2] = {(cuuint32_t)box_columns, (cuuint32_t)box_rows};

    return describe_tensor(map, type == TYPE_BF16, 2, matrix, dims, pitch, box);
}

/* Describe W (2 * columns, depth), gates before ups: a tile has 8 gates, their ups, 8 gates ... */
bool describe_gated_weights(CUtensorMap *map, enum device_type type, const void *w, int64_t columns,
                            int64_t depth)
{
    const cuuint64_t line = (cuuint64_t)depth * 2;
    const cuuint64_t dims[4] = {(cuuint64_t)depth, INTERLEAVE, 2, (cuuint64_t)columns / INTERLEAVE};
    const cuuint64_t pitch[3] = {line, (cuuint64_t)columns * line, INTERLEAVE * line};
    const cuuint32_t box[4] = {LINE / 2, INTERLEAVE, 2, COLUMNS / (2 * INTERLEAVE)};

    return describe_tensor(map, type == TYPE_BF16, 4, w, dims, pitch, box);
}

/* The columns of y, and of the gradient's product. */
int64_t columns_of(const struct linear_shape *s, int gradient)
{
    return gradient ? s->in : is_gated(s->activation) ? s->out / 2 : s->out;
}

/* Launch clusters on all multiprocessors. Returns 0, or -1 on failure. */
int launch(cudaStream_t stream, kernel function, const struct linear_arguments &a)
{
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t config = {};

    if (cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             sizeof(struct shared_memory)))
        return -1;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.gridDim = dim3((unsigned)(processor_count() / CLUSTER * CLUSTER));
    config.blockDim = dim3(GROUPS * GROUP);
    config.dynamicSmemBytes = sizeof(struct shared_memory);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, function, a) ? -1 : 0;
}

} // namespace

extern "C" int hopper_linear_fits(const struct linear_shape *s, int gradient)
{
    const int64_t columns = columns_of(s, gradient), depth = gradient ? s->out : s->in;
    const int gated = is_gated(s->activation);
    kernel function;

    if (s->types.x != TYPE_BF16 && s->types.x != TYPE_FP16)
        return 0;
    if (gated ? gradient && s->bias : !gradient && !s->save_pre)
        return 0;
    if (columns % (CLUSTER * width_of(gradient, gated)) || depth % DEPTH || columns < 1 ||
        s->rows < 1 || s->rows > INT32_MAX / 4 || columns > INT32_MAX / 4 || depth > INT32_MAX / 4)
        return 0;
    function = find_kernel(s, gradient);
    return function && has_hopper_code((const void *)function, GROUPS,
                                       LOADER_REGISTERS + WORKERS * WORKER_REGISTERS);
}

extern "C" size_t hopper_linear_workspace(const struct linear_shape *s, int gradient)
{
    return gradient && !is_gated(s->activation)
               ? (size_t)divide_up(s->rows, ROWS) * (size_t)s->in * sizeof(float)
               : 0;
}

extern "C" int hopper_linear_forward(cudaStream_t stream, const struct linear_shape *s,
                                     const struct linear_forward_operands *o)
{
    const enum device_type type = s->types.x;
    const int gated = is_gated(s->activation), line = gated ? LINE / 4 : LINE / 2;
    struct linear_arguments a = {};

    a.bias = s->bias ? o->bias : NULL;
    a.rows = (int)s->rows;
    a.columns = (int)columns_of(s, 0);
    a.depth = (int)s->in;
    if (!describe(&a.x, type, o->x, s->rows, s->in, ROWS / CLUSTER) ||
        !(gated ? describe_gated_weights(&a.w, type, o->weight, a.columns, s->in)
                : describe(&a.w, type, o->weight, s->out, s->in, COLUMNS)) ||
        !describe(&a.pre, type, o->pre, s->rows, s->out, BLOCK, line) ||
        !describe(&a.y, type, o->y, s->rows, a.columns, BLOCK, line))
        return -1;
    return launch(stream, find_kernel(s, 0), a);
}

extern "C" int hopper_linear_gradient(cudaStream_t stream, const struct linear_shape *s,
                                      const struct linear_dgrad_operands *o, float *workspace)
{
    const enum device_type type = s->types.x;
    const int gated = is_gated(s->activation), box_rows = gated ? STRIPE : BLOCK;
    const int64_t wide = gated ? 2 * s->in : s->in;
    struct linear_arguments a = {};

    a.partial = s->bias ? workspace : NULL;
    a.rows = (int)s->rows;
    a.columns = (int)s->in;
    a.depth = (int)s->out;
    if (!describe(&a.x, type, o->dy, s->rows, s->out, ROWS / CLUSTER) ||
        !describe(&a.w, type, o->weight, s->out, s->in, DEPTH) ||
        !describe(&a.pre, type, o->pre, s->rows, wide, box_rows) ||
        !describe(&a.y, type, o->dx, s->rows, wide, box_rows) ||
        launch(stream, find_kernel(s, 1), a))
        return -1;
    if (s->bias)
        kernel_add_shares(stream, workspace, {{o->dbias, NULL, NULL}}, 1,
                          (int)divide_up(s->rows, ROWS), s->in, o->accumulate);
    return 0;
}

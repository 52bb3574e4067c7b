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
    struct shared_memory *shared = reinterpret_cast<struct shared_memory *>(memory);
    const int group = threadIdx.x / GROUP;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&shared->full[i]), 1);
            barrier_init(shared_address(&shared->empty[i]), CLUSTER * WORKERS * WARPS);
        }
        for (int i = 0; i < WORKERS * SLOTS; i++)
            barrier_init(shared_address(&shared->pre_full[i / SLOTS][i % SLOTS]), 1);
        barrier_init_done();
    }
    cluster_sync();
    if (group == 0) {
        registers_fewer<LOADER_REGISTERS>();
        if (threadIdx.x == 0)
            load<GRADIENT>(a, shared);
    } else {
        registers_more<WORKER_REGISTERS>();
        worker<T, ACTIVATION, GRADIENT, PER_STAGE>(a, shared, group - 1).work();
    }
    cluster_sync(); /* the other block may still arrive at barriers of this one */
#endif
}

typedef void (*kernel)(struct linear_arguments);

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
    if (s->types.x == TYPE_BF16)
        return gradient ? kernel_for<bf16, true>(s->activation, s->out)
                        : kernel_for<bf16, false>(s->activation, s->in);
    return gradient ? kernel_for<fp16, true>(s->activation, s->out)
                    : kernel_for<fp16, false>(s->activation, s->in);
}

/* Describe a matrix that is copied 'box_rows' rows of 64 elements at a time. */
bool describe(CUtensorMap *map, enum device_type type, const void *matrix, int64_t rows,
              int64_t columns, int box_rows)
{
    const cuuint64_t dims[2] = {(cuuint64_t)columns, (cuuint64_t)rows};
    const cuuint64_t pitch[1] = {(cuuint64_t)columns * 2};
    const cuuint32_t box[2] = {LINE / 2, (cuuint32_t)box_rows};

    return describe_tensor(map, type == TYPE_BF16, 2, matrix, dims, pitch, box);
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
    const int64_t columns = gradient ? s->in : s->out, depth = gradient ? s->out : s->in;
    kernel function;

    if ((s->types.x != TYPE_BF16 && s->types.x != TYPE_FP16) || (!gradient && !s->save_pre))
        return 0;
    if (columns % (CLUSTER * COLUMNS) || depth % DEPTH || columns < 1 || s->rows < 1 ||
        s->rows > INT32_MAX / 4 || columns > INT32_MAX / 4 || depth > INT32_MAX / 4)
        return 0;
    function = find_kernel(s, gradient);
    return function && has_hopper_code((const void *)function, GROUPS,
                                       LOADER_REGISTERS + WORKERS * WORKER_REGISTERS);
}

extern "C" size_t hopper_linear_workspace(const struct linear_shape *s, int gradient)
{
    return gradient ? (size_t)divide_up(s->rows, ROWS) * (size_t)s->in * sizeof(float) : 0;
}

extern "C" int hopper_linear_forward(cudaStream_t stream, const struct linear_shape *s,
                                     const struct linear_forward_operands *o)
{
    const enum device_type type = s->types.x;
    struct linear_arguments a = {};

    a.bias = s->bias ? o->bias : NULL;
    a.rows = (int)s->rows;
    a.columns = (int)s->out;
    a.depth = (int)s->in;
    if (!describe(&a.x, type, o->x, s->rows, s->in, ROWS / CLUSTER) ||
        !describe(&a.w, type, o->weight, s->out, s->in, COLUMNS) ||
        !describe(&a.pre, type, o->pre, s->rows, s->out, BLOCK) ||
        !describe(&a.y, type, o->y, s->rows, s->out, BLOCK))
        return -1;
    return launch(stream, find_kernel(s, 0), a);
}

extern "C" int hopper_linear_gradient(cudaStream_t stream, const struct linear_shape *s,
                                      const struct linear_dgrad_operands *o, float *workspace)
{
    const enum device_type type = s->types.x;
    struct linear_arguments a = {};

    a.partial = s->bias ? workspace : NULL;
    a.rows = (int)s->rows;
    a.columns = (int)s->in;
    a.depth = (int)s->out;
    if (!describe(&a.x, type, o->dy, s->rows, s->out, ROWS / CLUSTER) ||
        !describe(&a.w, type, o->weight, s->out, s->in, DEPTH) ||
        !describe(&a.pre, type, o->pre, s->rows, s->in, BLOCK) ||
        !describe(&a.y, type, o->dx, s->rows, s->in, BLOCK) || launch(stream, find_kernel(s, 1), a))
        return -1;
    if (s->bias)
        kernel_add_shares(stream, workspace, {{o->dbias, NULL, NULL}}, 1,
                          (int)divide_up(s->rows, ROWS), s->in, o->accumulate);
    return 0;
}

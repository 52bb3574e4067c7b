/* SPDX-License-Identifier: Apache-2.0 */
#include "hopper_attention_queries.cuh"
#include "hopper_attention_launch.cuh"

namespace
{

template <typename T, int WIDTH>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    queries_kernel(const __grid_constant__ struct attention_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];

    run_groups<query_worker<T, WIDTH>>(a, memory);
#endif
}

template <int WIDTH>
int launch_kernel(cudaStream_t stream, cudnnDataType_t type, const struct attention_arguments &a)
{
    return launch<struct queries_shared<WIDTH>>(
        stream,
        type == CUDNN_DATA_BFLOAT16 ? queries_kernel<bf16, WIDTH> : queries_kernel<fp16, WIDTH>, a);
}

} // namespace

int launch_query_gradient(cudaStream_t stream, cudnnDataType_t type, int width,
                          const struct attention_arguments &a)
{
    int status = -1;

    WITH_WIDTH(width, status = launch_kernel<WIDTH>(stream, type, a));
    return status;
}

bool has_query_gradient(int width)
{
    bool has = false;

    WITH_WIDTH(width, has = has_code(queries_kernel<bf16, WIDTH>) &&
                            has_code(queries_kernel<fp16, WIDTH>));
    return has;
}

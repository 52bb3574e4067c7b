/* SPDX-License-Identifier: Apache-2.0 */
#include "hopper_attention_queries.cuh"
#include "hopper_attention_launch.cuh"

int launch_query_gradient(cudaStream_t stream, cudnnDataType_t type, int width,
                          const struct attention_arguments &a)
{
    return launch_kernel<query_worker>(stream, type, width, a);
}

bool has_query_gradient(int width)
{
    return has_kernel<query_worker>(width);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hopper_attention_forward.cuh"
#include "hopper_attention_launch.cuh"

int launch_attention(cudaStream_t stream, cudnnDataType_t type, int width,
                     const struct attention_arguments &a)
{
    return launch_kernel<forward_worker>(stream, type, width, a);
}

bool has_attention(int width)
{
    return has_kernel<forward_worker>(width);
}

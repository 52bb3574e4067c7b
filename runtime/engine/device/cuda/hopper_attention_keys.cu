/* SPDX-License-Identifier: Apache-2.0 */
#include "hopper_attention_keys.cuh"
#include "hopper_attention_launch.cuh"

int launch_key_gradient(cudaStream_t stream, cudnnDataType_t type, int width,
                        const struct attention_arguments &a)
{
    return launch_kernel<key_worker>(stream, type, width, a);
}

bool has_key_gradient(int width)
{
    return has_kernel<key_worker>(width);
}

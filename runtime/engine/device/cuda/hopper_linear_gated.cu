/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of hopper_linear.cuh with a gate: SwiGLU, which nearly all models have. Others would
 * compile, too, but the compiler needs a minute for each. */
#include "hopper_linear.cuh"

namespace
{

template <typename T, bool GRADIENT>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    gated_kernel(const __grid_constant__ struct linear_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];

    run_block<T, ACTIVATION_SWIGLU, GRADIENT, 1>(a,
                                                 reinterpret_cast<struct shared_memory *>(memory));
#endif
}

template <typename T> kernel kernel_for(int gradient)
{
    return gradient ? gated_kernel<T, true> : gated_kernel<T, false>;
}

} // namespace

const void *hopper_gated_kernel(const struct linear_shape *s, int gradient)
{
    const int64_t depth = gradient ? s->out : s->in;

    if (s->activation != ACTIVATION_SWIGLU || depth < spread_of(gradient, true) * STRIPES * DEPTH)
        return NULL;
    return (const void *)(s->types.x == TYPE_BF16 ? kernel_for<bf16>(gradient)
                                                  : kernel_for<fp16>(gradient));
}

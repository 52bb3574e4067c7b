/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of hopper_linear.cuh with a gate. */
#include "hopper_linear.cuh"

namespace
{

template <typename T, activation ACTIVATION, bool GRADIENT>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    gated_kernel(const __grid_constant__ struct linear_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t memory[];

    run_block<T, ACTIVATION, GRADIENT, 1>(a, reinterpret_cast<struct shared_memory *>(memory));
#endif
}

template <typename T, bool GRADIENT> kernel kernel_of(enum activation activation)
{
    switch (activation) {
    case ACTIVATION_SWIGLU:
        return gated_kernel<T, ACTIVATION_SWIGLU, GRADIENT>;
    case ACTIVATION_GEGLU:
        return gated_kernel<T, ACTIVATION_GEGLU, GRADIENT>;
    default:
        return gated_kernel<T, ACTIVATION_QUICK_GEGLU, GRADIENT>;
    }
}

template <typename T> kernel kernel_for(enum activation activation, int gradient)
{
    return gradient ? kernel_of<T, true>(activation) : kernel_of<T, false>(activation);
}

} // namespace

const void *hopper_gated_kernel(const struct linear_shape *s, int gradient)
{
    const int64_t depth = gradient ? s->out : s->in;

    if (depth < spread_of(gradient, true) * STRIPES * DEPTH)
        return NULL;
    return (const void *)(s->types.x == TYPE_BF16 ? kernel_for<bf16>(s->activation, gradient)
                                                  : kernel_for<fp16>(s->activation, gradient));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* For kernels that write fp8: the cast of a vector, and the largest magnitude of a tensor. */
#ifndef MEGATRON_FP8_CUH
#define MEGATRON_FP8_CUH

#include "common.cuh"

#include <cuda_fp8.h>

namespace
{

/* Does the target architecture have fp8? For others, kernels that write it are empty, which saves
 * much compile time: no plan uses them there. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
constexpr bool HAS_FP8 = false;
#else
constexpr bool HAS_FP8 = true;
#endif

/* Eight values as fp8, the first in the lowest byte. */
template <__nv_fp8_interpretation_t KIND>
__device__ inline uint2 to_fp8(const float *v, float scale)
{
    uint32_t two[4];

#pragma unroll
    for (int i = 0; i < 4; i++)
        two[i] = __nv_cvt_float2_to_fp8x2(make_float2(v[2 * i] * scale, v[2 * i + 1] * scale),
                                          __NV_SATFINITE, KIND);
    return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
}

/* |x| as bits keeps NaN, which fmaxf would lose. */
__device__ inline uint32_t magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

/* Bits of numbers that are not negative are ordered as the numbers are, NaN last, so the result
 * does not depend on the order. */
__device__ inline void raise_amax(float *amax, uint32_t bits)
{
    if (bits > *(volatile uint32_t *)amax)
        atomicMax((uint32_t *)amax, bits);
}

} // namespace

#endif

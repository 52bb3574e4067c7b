/* SPDX-License-Identifier: Apache-2.0 */
/* Gates: SwiGLU and its relatives. */
#ifndef MEGATRON_GATE_CUH
#define MEGATRON_GATE_CUH

#include "gelu.cuh"
#include "engine/device/operation.h"

__device__ inline float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

/* f of a gate, see operation.h, and its derivative; both for N numbers. */
template <gate GATE, int N> struct gate_function {
    /* up *= f(x) */
    static __device__ inline void apply(const float *x, float *up)
    {
        float f[N];

#pragma unroll
        for (int k = 0; k < N; k++)
            f[k] = x[k];
        if (GATE == GATE_GELU_TANH)
            gelu_tanh<N>(f);
        else
#pragma unroll
            for (int k = 0; k < N; k++)
                f[k] *= sigmoid(GATE == GATE_SILU ? x[k] : 1.702f * x[k]);
#pragma unroll
        for (int k = 0; k < N; k++)
            up[k] *= f[k];
    }

    /* x and up become their gradients. */
    static __device__ inline void differentiate(float *x, float *up, const float *d)
    {
        float slope[N], dup[N];

#pragma unroll
        for (int k = 0; k < N; k++) {
            slope[k] = d[k] * up[k];
            dup[k] = d[k];
        }
        if (GATE == GATE_GELU_TANH) {
            gelu_tanh_gradient<N>(x, slope);
        } else {
            constexpr float BY = GATE == GATE_SILU ? 1.0f : 1.702f;

#pragma unroll
            for (int k = 0; k < N; k++) {
                const float open = sigmoid(BY * x[k]);

                slope[k] *= open + BY * x[k] * open * (1.0f - open);
            }
        }
        apply(x, dup);
#pragma unroll
        for (int k = 0; k < N; k++) {
            x[k] = slope[k];
            up[k] = dup[k];
        }
    }
};

#endif

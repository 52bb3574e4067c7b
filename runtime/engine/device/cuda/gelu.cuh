/* SPDX-License-Identifier: Apache-2.0 */
/* Activations: GELU by its tanh approximation, as in Megatron and GPT-2, exact GELU, as in BERT,
 * RoBERTa and GPT-NeoX, and squared ReLU. */
#ifndef MEGATRON_GELU_CUH
#define MEGATRON_GELU_CUH

/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3), for N numbers
 * interleaved: a single one would wait forty cycles for its two slow instructions. The instructions
 * are used directly: what C++'s functions add for very small numbers makes no difference here and
 * costs a third. */
template <int N> __device__ inline void gelu_sigmoids(const float *x, float *s)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float power = x[i] * (-2.3022082f - 0.10294324f * x[i] * x[i]); /* -2u / ln 2 */

        asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(s[i]) : "f"(power));
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(s[i]) : "f"(1.0f + s[i]));
}

/* x = gelu(x) */
template <int N> __device__ inline void gelu_tanh(float *x)
{
    float s[N];

    gelu_sigmoids<N>(x, s);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] *= s[i];
}

/* y *= gelu'(x) */
template <int N> __device__ inline void gelu_tanh_gradient(const float *x, float *y)
{
    float s[N];

    gelu_sigmoids<N>(x, s);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float xs = x[i] * s[i];

        /* s + x s (1 - s) times 2 du/dx */
        y[i] *= s[i] + (xs - xs * s[i]) * (1.5957691f + 0.21406444f * x[i] * x[i]);
    }
}

/* The normal CDF of N numbers, and e = exp(-x^2 / 2), for 16-bit results: with t = 1 / (1 + 0.31
 * |x|) the tail is e times a polynomial of t, within 5e-6 of its value everywhere. erfcf costs
 * three times as much, which is then more than reading and writing the numbers. */
template <int N> __device__ inline void normal_cdf(const float *x, float *cdf, float *e)
{
    float t[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        const float power = x[i] * x[i] * -0.72134752f; /* -x^2 / 2 / ln 2 */

        asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(e[i]) : "f"(power));
        asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(t[i]) : "f"(1.0f + 0.31f * fabsf(x[i])));
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float tail = -0.073926933f;

        tail = tail * t[i] + 0.18044375f;
        tail = tail * t[i] + 0.015752371f;
        tail = tail * t[i] + 0.13342546f;
        tail = tail * t[i] + 0.12044246f;
        tail = tail * t[i] + 0.12386058f;
        tail *= t[i] * e[i];
        cdf[i] = x[i] < 0.0f ? tail : 1.0f - tail;
    }
}

/* x = x * normal CDF(x). FINE: for fp32 results; erfcf keeps the relative precision in the left
 * tail. */
template <int N, bool FINE> __device__ inline void gelu_erf(float *x)
{
    float cdf[N], e[N];

    if (!FINE)
        normal_cdf<N>(x, cdf, e);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] *= FINE ? 0.5f * erfcf(-0.70710678f * x[i]) : cdf[i];
}

/* x = tanh(x) */
template <int N> __device__ inline void tanh_forward(float *x)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = tanhf(x[i]);
}

/* y *= tanh'(x) */
template <int N> __device__ inline void tanh_gradient(const float *x, float *y)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float t = tanhf(x[i]);

        y[i] *= 1.0f - t * t;
    }
}

/* y *= CDF(x) + x * density(x) */
template <int N, bool FINE> __device__ inline void gelu_erf_gradient(const float *x, float *y)
{
    float cdf[N], e[N];

    if (!FINE)
        normal_cdf<N>(x, cdf, e);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (FINE) {
            cdf[i] = 0.5f * erfcf(-0.70710678f * x[i]);
            e[i] = __expf(-0.5f * x[i] * x[i]);
        }
        y[i] *= cdf[i] + x[i] * 0.39894228f * e[i];
    }
}

/* x = max(x, 0)^2 */
template <int N> __device__ inline void squared_relu(float *x)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = x[i] > 0.0f ? x[i] * x[i] : 0.0f;
}

/* y *= 2 max(x, 0) */
template <int N> __device__ inline void squared_relu_gradient(const float *x, float *y)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] *= x[i] > 0.0f ? 2.0f * x[i] : 0.0f;
}

#endif

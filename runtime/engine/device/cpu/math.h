/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the compiler can vectorize: no branches, no calls, no errno. */
#ifndef MEGATRON_CPU_MATH_H
#define MEGATRON_CPU_MATH_H

#include <stdint.h>
#include <string.h>

/* e^x within 2 ulp for x up to 88; 0 below -87. */
static inline float fast_exp_to_88(float x)
{
    const float shifter = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float shifted = x * 1.44269504f + shifter;
    float whole = shifted - shifter;
    float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float square = r * r, high, middle, low;
    uint32_t bits; /* wraps if x is NaN or far below; then r is NaN, or is not used */
    float power;

    /* In pairs, not one by one (Horner): a chain of dependent instructions would take longer. */
    high = 1.9875691500e-4f * r + 1.3981999507e-3f;
    middle = 8.3334519073e-3f * r + 4.1665795894e-2f;
    low = 1.6666665459e-1f * r + 5.0000001201e-1f;
    high = ((high * square + middle) * square + low) * square + r + 1.0f;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits - 0x4B400000u + 127u) << 23;
    memcpy(&power, &bits, sizeof(power));
    return x < -87.0f ? 0.0f : high * power;
}

/* e^x within 2 ulp; 0 below -87; never +inf (clamped at 88). */
static inline float fast_exp(float x)
{
    return fast_exp_to_88(x > 88.0f ? 88.0f : x);
}

static inline float fast_tanh(float x)
{
    float bounded = x > 10.0f ? 10.0f : x < -10.0f ? -10.0f : x;
    float e = fast_exp(2.0f * bounded);

    return (e - 1.0f) / (e + 1.0f);
}

/* The tanh approximation of GELU, and its derivative. */
static inline float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + fast_tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}

static inline float gelu_tanh_derivative(float x)
{
    float t = fast_tanh(0.79788456f * (x + 0.044715f * x * x * x));

    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 3.0f * 0.044715f * x * x);
}

/* The upper tail of the normal distribution at |x| divided by 'density' = exp(-x^2 / 2): t * p(t)
 * with t = 1 / (1 + 0.32 |x|), fitted to a relative error of 4e-8. */
static inline float normal_tail(float x)
{
    float t = 1.0f / (1.0f + 0.32f * __builtin_fabsf(x));
    float t2 = t * t, t4 = t2 * t2;
    float p89 = -0.02116033f * t + 0.09579441f, p67 = -0.14747394f * t + 0.06615558f;
    float p45 = -0.00990659f * t + 0.05885731f, p23 = 0.08778353f * t + 0.11462783f;
    float p01 = 0.12766065f * t + 0.12766153f;

    return ((p89 * t4 + (p67 * t2 + p45)) * t4 + (p23 * t2 + p01)) * t;
}

/* The exact GELU, x times the normal CDF of x, and its derivative. */
static inline float gelu_erf(float x)
{
    float tail = normal_tail(x) * fast_exp_to_88(-0.5f * x * x);

    return x * (x < 0.0f ? tail : 1.0f - tail);
}

static inline float gelu_erf_derivative(float x)
{
    float density = fast_exp_to_88(-0.5f * x * x), tail = normal_tail(x) * density;

    return (x < 0.0f ? tail : 1.0f - tail) + x * density * 0.39894228f;
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + fast_exp(-x));
}

static inline float squared_relu(float x)
{
    return x > 0.0f ? x * x : 0.0f;
}

static inline float squared_relu_derivative(float x)
{
    return x > 0.0f ? 2.0f * x : 0.0f;
}

/* x * sigmoid(1.702 x), and its derivative. */
static inline float quick_gelu(float x)
{
    return x * sigmoid(1.702f * x);
}

static inline float quick_gelu_derivative(float x)
{
    float s = sigmoid(1.702f * x);

    return s * (1.0f + 1.702f * x * (1.0f - s));
}

/* Sums in sixteen lanes, so that they vectorize without -ffast-math. */
#define LANES 16

static inline float lanes_total(const float *lane)
{
    float total = 0;

    for (int i = 0; i < LANES; i++)
        total += lane[i];
    return total;
}

static inline float vector_sum(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i];
    return lanes_total(lane);
}

static inline float vector_dot(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l] * y[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i] * y[i];
    return lanes_total(lane);
}

static inline float vector_max(const float *x, int64_t n, float least)
{
    float lane[LANES];
    int64_t i = 0;

    for (int l = 0; l < LANES; l++)
        lane[l] = least;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

#endif

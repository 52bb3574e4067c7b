/* SPDX-License-Identifier: Apache-2.0 */
/* Convert the two 16-bit types from and to float. */
#ifndef MEGATRON_HALF_H
#define MEGATRON_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bfloat_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float half_to_float(uint16_t half)
{
    int exponent = half >> 10 & 31;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, fraction = half & 0x3FF, bits;
    float value;

    if (exponent == 0) {
        value = (float)fraction / 16777216.0f;
        return sign ? -value : value;
    }
    bits = sign | (uint32_t)(exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t float_to_bfloat(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline uint16_t float_to_half(float value)
{
    uint32_t bits, sign, fraction, rest, half;
    int exponent, shift;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    exponent = (int)(bits >> 23 & 255) - 112;
    fraction = (bits & 0x7FFFFF) | 0x800000;
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(sign | 0x7E00);
    if (exponent >= 31)
        return (uint16_t)(sign | 0x7C00);
    if (exponent < -10)
        return (uint16_t)sign;
    shift = exponent <= 0 ? 14 - exponent : 13;
    half = exponent <= 0 ? fraction >> shift : (uint32_t)(exponent - 1) << 10;
    if (exponent > 0)
        half += fraction >> shift;
    rest = fraction & ((1u << shift) - 1);
    if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (half & 1)))
        half++;
    return (uint16_t)(sign | half);
}

/* Turn 'count' numbers of 16 bits into floats in the memory of the result, whose second half they
 * fill. 'to_float': half_to_float or bfloat_to_float. */
static inline void half_widen(float *values, int64_t count, float (*to_float)(uint16_t))
{
    const char *from = (const char *)(values + count) - (size_t)count * sizeof(uint16_t);

    for (int64_t i = 0; i < count; i++) {
        uint16_t half;

        memcpy(&half, from + (size_t)i * sizeof(half), sizeof(half));
        values[i] = to_float(half);
    }
}

/* Round floats to bf16 in place: the results fill the first half. */
static inline void bfloat_narrow(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t half = float_to_bfloat(values[i]);

        memcpy((char *)values + (size_t)i * sizeof(half), &half, sizeof(half));
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two 8-bit floating-point formats of Hopper's tensor cores, bit by bit as the hardware
 * converts: round to nearest even, saturate to the largest finite number, NaN stays NaN.
 *
 * - e4m3 has 4 exponent bits (bias 7) and 3 mantissa bits, no infinity; the largest number is 448.
 * - e5m2 has 5 exponent bits (bias 15) and 2 mantissa bits; the largest finite number is 57344. */
#ifndef MEGATRON_FP8_H
#define MEGATRON_FP8_H

#include <math.h>
#include <stdint.h>

#include "operation.h"

#define FP8_NAN 0x7f

static inline float fp8_largest(enum device_type type)
{
    return type == TYPE_E4M3 ? 448.0f : 57344.0f;
}

/* The byte for 'x'. */
static inline uint8_t fp8_encode(float x, enum device_type type)
{
    const int mantissa = type == TYPE_E4M3 ? 3 : 2, bias = type == TYPE_E4M3 ? 7 : 15;
    const uint8_t sign = signbit(x) ? 0x80 : 0;
    float magnitude = fabsf(x);
    int exponent;

    if (isnan(x))
        return FP8_NAN;
    if (magnitude > fp8_largest(type))
        magnitude = fp8_largest(type);
    if (magnitude == 0)
        return sign;
    exponent = ilogbf(magnitude);
    if (exponent < 1 - bias)
        exponent = 1 - bias; /* subnormal */
    /* A mantissa that rounds up to the next power of two carries into the exponent. */
    return (uint8_t)(sign | (((exponent + bias - 1) << mantissa) +
                             (int)nearbyintf(ldexpf(magnitude, mantissa - exponent))));
}

/* The number of a byte. */
static inline float fp8_decode(uint8_t byte, enum device_type type)
{
    const int mantissa = type == TYPE_E4M3 ? 3 : 2, bias = type == TYPE_E4M3 ? 7 : 15;
    const int digits = byte & ((1 << mantissa) - 1), exponent = (byte & 0x7f) >> mantissa;
    float magnitude;

    if (type == TYPE_E4M3 ? (byte & 0x7f) == 0x7f : exponent == 31 && digits)
        return NAN;
    if (type == TYPE_E5M2 && exponent == 31)
        magnitude = INFINITY;
    else if (exponent == 0)
        magnitude = ldexpf((float)digits, 1 - bias - mantissa);
    else
        magnitude = ldexpf((float)(digits + (1 << mantissa)), exponent - bias - mantissa);
    return byte & 0x80 ? -magnitude : magnitude;
}

#endif

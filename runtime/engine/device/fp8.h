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

static inline int type_is_fp8(enum device_type type)
{
    return type == TYPE_E4M3 || type == TYPE_E5M2;
}

static inline float fp8_largest(enum device_type type)
{
    return type == TYPE_E4M3 ? SCALING_E4M3_MAX : SCALING_E5M2_MAX;
}

/* The byte for 'x'. Normal numbers are rounded in their bits; a mantissa that rounds up to the next
 * power of two carries into the exponent. Adding 'unit' to a subnormal number rounds it to a
 * multiple of the smallest one. */
static inline uint8_t fp8_encode(float x, enum device_type type)
{
    const uint32_t mantissa = type == TYPE_E4M3 ? 3 : 2, bias = type == TYPE_E4M3 ? 7 : 15;
    const uint32_t drop = 23 - mantissa, smallest_normal = (128 - bias) << 23;
    union {
        float number;
        uint32_t bits;
    } u = {.number = x}, unit = {.bits = (128 - bias + drop) << 23};
    uint8_t sign = (uint8_t)(u.bits >> 24 & 0x80);

    u.bits &= 0x7fffffffu;
    if (u.bits > 0x7f800000u)
        return FP8_NAN;
    if (u.number > fp8_largest(type))
        u.number = fp8_largest(type);
    if (u.bits < smallest_normal) {
        u.number += unit.number;
        return (uint8_t)(sign | (u.bits - unit.bits));
    }
    u.bits += (1u << (drop - 1)) - 1 + (u.bits >> drop & 1);
    return (uint8_t)(sign | ((u.bits >> drop) - ((127 - bias) << mantissa)));
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

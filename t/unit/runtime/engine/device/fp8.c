/* SPDX-License-Identifier: Apache-2.0 */
/* The conversion to and from fp8 (device/fp8.h): every byte, and rounding between neighbors. */
#include "engine/device/fp8.h"
#include "tap.h"

#include <float.h>
#include <math.h>

static const struct {
    float x;
    uint8_t e4m3, e5m2;
} rows[] = {
    {0.0f, 0x00, 0x00},
    {-0.0f, 0x80, 0x80},
    {1.0f, 0x38, 0x3c},
    {-1.0f, 0xb8, 0xbc},
    {448.0f, 0x7e, 0x5f},
    {464.0f, 0x7e, 0x5f},         /* beyond e4m3 */
    {57344.0f, 0x7e, 0x7b},       /* the largest of e5m2 */
    {1e30f, 0x7e, 0x7b},          /* saturated */
    {-INFINITY, 0xfe, 0xfb},      /* saturated */
    {0.015625f, 0x08, 0x24},      /* the smallest normal number of e4m3, 2^-6 */
    {0.001953125f, 0x01, 0x18},   /* the smallest of e4m3, 2^-9 */
    {0.0009765625f, 0x00, 0x14},  /* half of it: a tie, to even */
    {0.0029296875f, 0x02, 0x1a},  /* one and a half: a tie, to even */
    {1.0625f, 0x38, 0x3c},        /* a tie in e4m3, to even */
    {1.1875f, 0x3a, 0x3d},        /* a tie in e4m3, to even */
    {1.125f, 0x39, 0x3c},         /* a tie in e5m2, to even */
    {1.96875f, 0x40, 0x40},       /* rounds up to the next power of two */
    {1.52587890625e-5f, 0, 0x01}, /* the smallest of e5m2, 2^-16 */
    {FLT_MIN, 0, 0},
};

static void test_rounding(enum device_type type, const char *name)
{
    int wrong = 0;

    /* Between two neighbors of one sign every number rounds to the nearer one. */
    for (int byte = 0; byte < 0x7e; byte++) {
        float low = fp8_decode((uint8_t)byte, type), high = fp8_decode((uint8_t)(byte + 1), type);

        if (!(high < INFINITY))
            break;
        for (int k = 1; k < 8; k++) {
            float x = low + (high - low) * (float)k / 8;
            int nearest = k < 4 || (k == 4 && byte % 2 == 0) ? byte : byte + 1;

            wrong += fp8_encode(x, type) != nearest || fp8_encode(-x, type) != (nearest | 0x80);
        }
    }
    ok(wrong == 0, "%s: rounds to the nearest, ties to even", name);
}

static void test_bytes(enum device_type type, const char *name)
{
    int wrong = 0;

    for (int byte = 0; byte < 256; byte++) {
        float x = fp8_decode((uint8_t)byte, type);

        if (!isnan(x) && !isinf(x))
            wrong += fp8_encode(x, type) != byte;
    }
    ok(wrong == 0, "%s: every finite byte is its own number", name);
    ok(isnan(fp8_decode(FP8_NAN, type)) && fp8_encode(NAN, type) == FP8_NAN, "%s: NaN", name);
}

/* Round in double precision, by the definition of the format. */
static uint8_t expected(float x, enum device_type type)
{
    const int mantissa = type == TYPE_E4M3 ? 3 : 2, bias = type == TYPE_E4M3 ? 7 : 15;
    double magnitude = fmin(fabs((double)x), (double)fp8_largest(type));
    int exponent = magnitude > 0 ? ilogb(magnitude) : 1 - bias;
    int sign = signbit(x) ? 0x80 : 0;

    if (isnan(x))
        return FP8_NAN;
    exponent = exponent < 1 - bias ? 1 - bias : exponent;
    return (uint8_t)(sign | (((exponent + bias - 1) << mantissa) +
                             (int)nearbyint(ldexp(magnitude, mantissa - exponent))));
}

/* Any bits: all exponents, NaN and Inf among them. */
static void test_random(enum device_type type, const char *name)
{
    uint32_t state = 12345;
    int wrong = 0;

    for (int i = 0; i < 400000; i++) {
        union {
            uint32_t bits;
            float number;
        } u;

        state = state * 1664525u + 1013904223u;
        u.bits = state;
        if (i % 2) /* more of those in range */
            u.bits = (state & 0x80ffffffu) | (100 + (state >> 24) % 48) << 23;
        wrong += fp8_encode(u.number, type) != expected(u.number, type);
    }
    ok(wrong == 0, "%s: random numbers, %d wrong", name, wrong);
}

/* largest / amax / 2^margin; what cannot be a scale keeps the old one. */
static void test_scales(void)
{
    static const struct {
        float amax, largest;
        int margin;
        float old, scale;
    } table[] = {
        {1, 448, 0, 0, 448},      {2, 448, 0, 7, 224},
        {2, 448, 3, 7, 28},       {0, 448, 0, 7, 7},
        {INFINITY, 448, 0, 7, 7}, {NAN, 448, 0, 7, 7},
        {7, 57344, 0, 1, 8192},   {1e-40f, 448, 0, 7, FLT_MAX},
        {448, 448, -2, 0, 4},     {3e38f, 448, 0, 1, 448 / 3e38f},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        ok(scaling_factor(table[i].amax, table[i].largest, table[i].margin, table[i].old) ==
               table[i].scale,
           "scale for amax %g, margin %d", (double)table[i].amax, table[i].margin);
}

/* The largest power of two with which the amax still fits; what cannot have one gets 1. */
static void test_block_scales(void)
{
    static const struct {
        float amax, largest, scale;
    } table[] = {
        {1, 448, 256},
        {448, 448, 1},
        {449, 448, 0.5f},
        {1.75f, 448, 256},
        {1.7500001f, 448, 128},
        {1.9999999f, 448, 128},
        {2, 448, 128},
        {57344, 57344, 1},
        {57345, 57344, 0.5f},
        {FLT_MAX, 448, 0x1p-120f},
        {0, 448, 1},
        {INFINITY, 448, 1},
        {NAN, 448, 1},
        {0x1.8p-118f, 448, 0x1p126f},
        {FLT_MIN, 448, 0x1p126f},
        {1e-45f, 57344, 0x1p126f},
    };
    int wrong = 0;

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        ok(scaling_block_factor(table[i].amax, table[i].largest) == table[i].scale,
           "scale of a block with amax %.9g, largest number %g", (double)table[i].amax,
           (double)table[i].largest);
    for (uint32_t bits = 0x04000000u; bits < 0x7f000000u; bits += 12345) {
        float amax, scale;

        memcpy(&amax, &bits, sizeof(amax));
        scale = scaling_block_factor(amax, 448);
        wrong += !((double)amax * (double)scale <= 448 && 2 * (double)amax * (double)scale > 448) &&
                 scale != 0x1p126f;
        wrong += 1 / (1 / scale) != scale;
    }
    ok(wrong == 0, "scales of blocks: the amax fits, and would not with twice of it; %d wrong",
       wrong);
}

static void test_places(void)
{
    static const struct {
        enum scaled_part part;
        int64_t rows, depth, count, row, at, place;
    } table[] = {
        {SCALED_WHOLE, 256, 256, 1, 200, 200, 0},
        {SCALED_VECTORS, 256, 384, 768, 0, 127, 0},
        {SCALED_VECTORS, 256, 384, 768, 255, 0, 255},
        {SCALED_VECTORS, 256, 384, 768, 3, 256, 515},
        {SCALED_SQUARES, 256, 384, 8, 127, 383, 2},
        {SCALED_SQUARES, 256, 384, 8, 128, 0, 4}, /* three blocks in lines of four */
        {SCALED_SQUARES, 384, 512, 12, 383, 511, 11},
        {SCALED_SQUARES, 128, 640, 8, 5, 639, 4},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        ok(scaling_count(table[i].part, table[i].rows, table[i].depth) == table[i].count &&
               scaling_place(table[i].part, table[i].rows, table[i].depth, table[i].row,
                             table[i].at) == table[i].place,
           "scales of %d x %d: that of (%d, %d) is number %d", (int)table[i].rows,
           (int)table[i].depth, (int)table[i].row, (int)table[i].at, (int)table[i].place);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        ok(fp8_encode(rows[i].x, TYPE_E4M3) == rows[i].e4m3, "%.9g as e4m3", (double)rows[i].x);
        ok(fp8_encode(rows[i].x, TYPE_E5M2) == rows[i].e5m2, "%.9g as e5m2", (double)rows[i].x);
    }
    test_bytes(TYPE_E4M3, "e4m3");
    test_bytes(TYPE_E5M2, "e5m2");
    test_rounding(TYPE_E4M3, "e4m3");
    test_rounding(TYPE_E5M2, "e5m2");
    test_random(TYPE_E4M3, "e4m3");
    test_random(TYPE_E5M2, "e5m2");
    test_scales();
    test_block_scales();
    test_places();
    return done_testing();
}

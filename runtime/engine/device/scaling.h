/* SPDX-License-Identifier: Apache-2.0 */
/* Scales of fp8 tensors: the rules by which the largest magnitude of a tensor (amax) determines the
 * factor that its values are multiplied by before they are cast. Functions that compile as C and as
 * CUDA C++, so that a CPU and a GPU use the same scales.
 *
 * Tensors come in threes, one for each linear layer: input, weight, gradient of the output.
 * "Delayed" scaling takes the scale of a step from the amaxes of earlier steps. A scale of 0 means
 * that there is none yet: the tensor's current amax is used, as it is in every step of "tensorwise"
 * scaling. "Blockwise" scaling has a scale for every 128 elements of a row of an input or gradient,
 * and for every 128 x 128 elements of a weight, always from their current amax. */
#ifndef MEGATRON_SCALING_H
#define MEGATRON_SCALING_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define SCALING_FUNCTION static __host__ __device__ inline
#else
#define SCALING_FUNCTION static inline
#endif

enum scaled_tensor { SCALED_INPUT, SCALED_WEIGHT, SCALED_GRADIENT, SCALED_TENSORS };

#define SCALING_E4M3_MAX 448.0f
#define SCALING_E5M2_MAX 57344.0f

/* What shares a scale. Elements of a vector are neighbors in a row. */
enum scaled_part { SCALED_WHOLE, SCALED_VECTORS, SCALED_SQUARES };

enum { SCALING_BLOCK = 128 }; /* elements of a vector, rows and columns of a square */

/* Constant over a run. */
struct scaling_rules {
    int64_t count;   /* of tensors */
    int64_t length;  /* of the history, in steps */
    int delayed;     /* 0: tensorwise, nothing is kept */
    int most_recent; /* of the history only the last step counts; otherwise its maximum */
    int margin;      /* scales are divided by 2^margin */
    int hybrid;      /* gradients are e5m2; otherwise all tensors are e4m3 */
    int blocks;      /* blockwise, not 'delayed': nothing is kept */
};

/* The scale for the amax of a tensor whose format ends at 'largest'. An amax of 0, Inf or NaN keeps
 * the 'old' scale. */
SCALING_FUNCTION float scaling_factor(float amax, float largest, int margin, float old)
{
    float scale;

    if (!(amax > 0) || !isfinite(amax))
        return old;
    scale = ldexpf(largest / amax, -margin);
    return isfinite(scale) ? scale : FLT_MAX;
}

/* The scale for the amax of a block: the largest power of two with which it is at most 'largest',
 * which is 1.75 times a power of two. An amax of 0, Inf or NaN gives 1. Its inverse is exact:
 * scales end at 2^126. */
SCALING_FUNCTION float scaling_block_factor(float amax, float largest)
{
    const uint32_t mantissa = 0x7fffffu, most = 253;
    uint32_t bits, limit, exponent;
    float scale;

    if (!(amax > 0) || !isfinite(amax))
        return 1;
    memcpy(&bits, &amax, sizeof(bits));
    memcpy(&limit, &largest, sizeof(limit));
    exponent = 127 + (limit >> 23) - (bits >> 23) - ((bits & mantissa) > (limit & mantissa));
    exponent = (exponent < most ? exponent : most) << 23;
    memcpy(&scale, &exponent, sizeof(scale));
    return scale;
}

/* The inverses of the scales of a factor (rows, depth) of a product, which sums over 'depth', as
 * cuBLASLt takes them. Vectors: (depth / 128, rows). Squares: (rows / 128, depth / 128), with lines
 * that are a multiple of 4 long. */
SCALING_FUNCTION int64_t scaling_square_line(int64_t depth)
{
    return (depth / SCALING_BLOCK + 3) / 4 * 4;
}

SCALING_FUNCTION int64_t scaling_count(enum scaled_part part, int64_t rows, int64_t depth)
{
    return part == SCALED_WHOLE     ? 1
           : part == SCALED_VECTORS ? rows * (depth / SCALING_BLOCK)
                                    : rows / SCALING_BLOCK * scaling_square_line(depth);
}

/* Where that of element (row, at) is. */
SCALING_FUNCTION int64_t scaling_place(enum scaled_part part, int64_t rows, int64_t depth,
                                       int64_t row, int64_t at)
{
    return part == SCALED_WHOLE ? 0
           : part == SCALED_VECTORS
               ? at / SCALING_BLOCK * rows + row
               : row / SCALING_BLOCK * scaling_square_line(depth) + at / SCALING_BLOCK;
}

/* Store 1 / scale of the square at (row, at). What a line is padded with is never used, but may be
 * read, so the last square of a line clears it. */
SCALING_FUNCTION void scaling_put_square(float *inverse, int64_t rows, int64_t depth, int64_t row,
                                         int64_t at, float scale)
{
    float *place = inverse + scaling_place(SCALED_SQUARES, rows, depth, row, at);
    int64_t rest = scaling_square_line(depth) - depth / SCALING_BLOCK;

    *place = 1.0f / scale;
    for (int64_t i = 1; i <= rest && at + SCALING_BLOCK == depth; i++)
        place[i] = 0;
}

/* The square that element 'at' of a weight with 'depth' columns, row by row, belongs to. */
SCALING_FUNCTION int64_t scaling_square(int64_t depth, int64_t at)
{
    return at / depth / SCALING_BLOCK * (depth / SCALING_BLOCK) + at % depth / SCALING_BLOCK;
}

SCALING_FUNCTION float scaling_largest(const struct scaling_rules *rules, int64_t tensor)
{
    return rules->hybrid && tensor % SCALED_TENSORS == SCALED_GRADIENT ? SCALING_E5M2_MAX
                                                                       : SCALING_E4M3_MAX;
}

/* The scale of a weight that is cast in parts: 'scale', or if that is 0 the one for its 'amax'. */
SCALING_FUNCTION float scaling_weight(float scale, float amax, int margin)
{
    return scale != 0 ? scale : scaling_factor(amax, SCALING_E4M3_MAX, margin, 1);
}

/* Tensor number 'tensor' at the end of a step. 'position' is the entry of the history that is
 * replaced. Returns 1 if its amax is Inf or NaN: it is then left out. With delayed scaling every
 * scale is known from then on: that of a tensor without an amax is 1. */
SCALING_FUNCTION int scaling_end(const struct scaling_rules *rules, int64_t tensor,
                                 int64_t position, float *scale, float *amax, float *history)
{
    float now = amax[tensor], most = now;

    amax[tensor] = 0;
    if (rules->delayed && scale[tensor] == 0)
        scale[tensor] = 1;
    if (!isfinite(now))
        return 1;
    if (!rules->delayed)
        return 0;
    history[position * rules->count + tensor] = now;
    for (int64_t i = 0; i < rules->length && !rules->most_recent; i++) {
        float past = history[i * rules->count + tensor];

        most = past > most ? past : most;
    }
    scale[tensor] =
        scaling_factor(most, scaling_largest(rules, tensor), rules->margin, scale[tensor]);
    return 0;
}

#endif

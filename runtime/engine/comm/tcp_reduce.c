/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and maxima of CPU ranks. */
#include "tcp_world.h"
#include "base/core/half.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024 };

#define DEFINE_REDUCE(name, type)                                                 \
    static void name(type *to, const void *const *parts, int ranks, size_t count, \
                     enum comm_operator op)                                       \
    {                                                                             \
        type block[BLOCK];                                                        \
                                                                                  \
        for (size_t first = 0; first < count; first += BLOCK) {                   \
            size_t length = count - first < BLOCK ? count - first : BLOCK;        \
                                                                                  \
            memcpy(block, (const type *)parts[0] + first, length * sizeof(type)); \
            for (int rank = 1; rank < ranks; rank++) {                            \
                const type *part = (const type *)parts[rank] + first;             \
                                                                                  \
                for (size_t i = 0; i < length && op == COMM_SUM; i++)             \
                    block[i] += part[i];                                          \
                for (size_t i = 0; i < length && op == COMM_MAX; i++)             \
                    block[i] = part[i] > block[i] ? part[i] : block[i];           \
            }                                                                     \
            memcpy(to + first, block, length * sizeof(type));                     \
        }                                                                         \
    }

DEFINE_REDUCE(reduce_fp32, float)
DEFINE_REDUCE(reduce_fp64, double)
DEFINE_REDUCE(reduce_int32, int32_t)
DEFINE_REDUCE(reduce_int64, int64_t)

/* Added up in fp32 and rounded once. */
static void reduce_bf16(uint16_t *to, const void *const *parts, int ranks, size_t count,
                        enum comm_operator op)
{
    for (size_t i = 0; i < count; i++) {
        float sum = bfloat_to_float(((const uint16_t *)parts[0])[i]);

        for (int rank = 1; rank < ranks; rank++) {
            float part = bfloat_to_float(((const uint16_t *)parts[rank])[i]);

            sum = op == COMM_SUM ? sum + part : part > sum ? part : sum;
        }
        to[i] = float_to_bfloat(sum);
    }
}

bool tcp_is_reducible(enum device_type type)
{
    return type == TYPE_FP32 || type == TYPE_BF16 || type == TYPE_FP64 || type == TYPE_INT32 ||
           type == TYPE_INT64;
}

void tcp_reduce(void *to, const void *const *parts, int ranks, size_t count, enum device_type type,
                enum comm_operator op)
{
    if (count == 0)
        return;
    if (type == TYPE_FP32)
        reduce_fp32(to, parts, ranks, count, op);
    else if (type == TYPE_BF16)
        reduce_bf16(to, parts, ranks, count, op);
    else if (type == TYPE_FP64)
        reduce_fp64(to, parts, ranks, count, op);
    else if (type == TYPE_INT32)
        reduce_int32(to, parts, ranks, count, op);
    else
        reduce_int64(to, parts, ranks, count, op);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the CPU device needs for linear layers besides their operands. Operations run one
 * at a time and share it. */
#ifndef MEGATRON_CPU_WORKSPACE_H
#define MEGATRON_CPU_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

/* A product (m, n) of depth k whose factors are fp8: both are decoded to fp32. What is cast to fp8
 * for it, and computed there first, is one of them. */
static inline size_t cpu_factor_bytes(int64_t m, int64_t n, int64_t k)
{
    return (size_t)((m + n) * k) * sizeof(float);
}

/* A gradient of a weight that is stored in bf16: each thread computes it in fp32 by pieces of
 * CPU_PIECE rows and columns, a multiple of the tiles of all products. */
enum { CPU_PIECE = 768 };

static inline size_t cpu_piece_bytes(int64_t threads)
{
    return (size_t)threads * CPU_PIECE * CPU_PIECE * sizeof(float);
}

#endif

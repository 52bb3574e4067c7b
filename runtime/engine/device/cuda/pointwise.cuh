/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels that process each element once are launched: a flat grid over all elements, or
 * one block per row. */
#ifndef MEGATRON_POINTWISE_CUH
#define MEGATRON_POINTWISE_CUH

#include "common.cuh"

constexpr int THREADS = 256;

/* The number of blocks with one element or vector per thread. */
static inline unsigned blocks_for(int64_t vectors)
{
    return (unsigned)divide_up(vectors, THREADS);
}

/* Row kernels: one block per row. Threads iterate over its columns, two vectors at a time if there
 * are enough, with all loads before the first store. */
constexpr int ROW_THREADS = 256;

/* The number of threads for a row of 'cols' elements. */
static inline unsigned row_threads(int64_t cols)
{
    return (unsigned)smaller(divide_up(divide_up(cols, VECTOR), WARP) * WARP, ROW_THREADS);
}

#endif

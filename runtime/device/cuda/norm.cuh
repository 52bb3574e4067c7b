/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two directions of a step of the residual stream. */
#ifndef MEGATRON_NORM_CUH
#define MEGATRON_NORM_CUH

#include "dropout.cuh"

namespace
{

dropout make_dropout(const residual_norm_shape *shape, const step_state *state, uint32_t purpose)
{
    dropout drop = {shape->dropout > 0 ? dropout_threshold(shape->dropout) : 0,
                    dropout_scale(shape->dropout), purpose, state};

    return drop;
}

/* At least 'wanted' threads, a power of two. */
int round_threads(int64_t wanted, int limit)
{
    int threads = WARP;

    while (threads < wanted && threads < limit)
        threads *= 2;
    return threads;
}

/* Shared memory beyond the default limit, and preferred over L1 cache, for several blocks per
 * multiprocessor. */
template <typename Kernel> void allow_shared(Kernel *kernel, size_t bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
}

/* Rows of whole vectors, each processed by several warps; a block processes several rows at once.
 * The warps of a row synchronize on their own barrier. */
struct row_split {
    int warps;  /* warps per row */
    int groups; /* rows per block */
};

constexpr int ROW_BLOCK = 8; /* warps of a block unless a row needs more */

row_split split_rows(int64_t cols, int warp_cols)
{
    const int warps = (int)divide_up(cols, warp_cols);

    return {warps, warps < ROW_BLOCK ? ROW_BLOCK / warps : 1};
}

} // namespace

#endif

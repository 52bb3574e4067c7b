/* What the two directions of a step of the residual stream share. */
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

/* Threads for 'wanted' at least, in whole powers of two. */
int round_threads(int64_t wanted, int limit)
{
    int threads = WARP;

    while (threads < wanted && threads < limit)
        threads *= 2;
    return threads;
}

/* Shared memory beyond the usual limit, and all of it rather than cache: blocks side by side. */
template <typename Kernel> void allow_shared(Kernel *kernel, size_t bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
}

/* Rows in whole vectors, each done by some warps side by side; a block does several rows at once.
 * Where the warps of a row meet, a group has a barrier of its own. */
struct row_split {
    int warps;  /* of a row */
    int groups; /* rows side by side in a block */
};

constexpr int ROW_BLOCK = 8; /* warps of a block where a row does not need more */

row_split split_rows(int64_t cols, int warp_cols)
{
    const int warps = (int)divide_up(cols, warp_cols);

    return {warps, warps < ROW_BLOCK ? ROW_BLOCK / warps : 1};
}

} // namespace

#endif

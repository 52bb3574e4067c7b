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

/* Rows of whole vectors, each processed by several warps; a block processes several rows at once.
 * The warps of a row synchronize on their own barrier. */
struct row_split {
    int warps;  /* warps per row */
    int groups; /* rows per block */
};

} // namespace

#endif

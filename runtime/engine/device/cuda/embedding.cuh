/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the embedding and its gradient. */
#ifndef MEGATRON_EMBEDDING_CUH
#define MEGATRON_EMBEDDING_CUH

#include "common.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int BLOCKS = 4; /* on a multiprocessor at a time */

/* Rows are divided into strips, one warp per strip; a block processes several rows at once if they
 * have few strips. */
struct strips {
    int warps; /* warps per row in a block */
    int rows;  /* rows per block */
    int parts; /* blocks per row */
};

inline strips split_columns(int64_t cols, int strip)
{
    const int64_t all = divide_up(cols, strip);
    const int warps = (int)smaller(all, WARPS);

    return {warps, WARPS / warps, (int)divide_up(all, warps)};
}

} // namespace

#endif

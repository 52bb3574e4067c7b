/* What the embedding and its gradient share. */
#ifndef MEGATRON_EMBEDDING_CUH
#define MEGATRON_EMBEDDING_CUH

#include "common.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int BLOCKS = 4; /* on a multiprocessor at a time */

/* Rows cut into strips, a warp for each strip; a block does several rows side by side where they
 * have few strips. */
struct strips {
    int warps; /* of a row, in a block */
    int rows;  /* side by side in a block */
    int parts; /* blocks side by side on a row */
};

inline strips split_columns(int64_t cols, int strip)
{
    const int64_t all = divide_up(cols, strip);
    const int warps = (int)smaller(all, WARPS);

    return {warps, WARPS / warps, (int)divide_up(all, warps)};
}

} // namespace

#endif

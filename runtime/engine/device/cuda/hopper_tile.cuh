/* SPDX-License-Identifier: Apache-2.0 */
/* Where the elements of a tile are in shared memory, as TMA writes it and wgmma reads it. */
#ifndef MEGATRON_HOPPER_TILE_CUH
#define MEGATRON_HOPPER_TILE_CUH

#include <stdint.h>

/* wgmma's descriptor of a tile with lines of 'LINE' bytes (128, 64 or 32), swizzled over as many.
 * 'leading' (byte offset): from its first LINE / 2 columns to the next ones; only for operands
 * whose columns are columns of the result (MN-major). */
template <int LINE = 128>
__device__ inline uint64_t tile_descriptor(uint32_t address, int leading = 16)
{
    constexpr uint64_t STRIDE = 8 * LINE, SWIZZLE = LINE == 128 ? 1 : LINE == 64 ? 2 : 3;

    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
           (STRIDE >> 4) << 32 | SWIZZLE << 62;
}

/* The same tile, advanced by 'bytes'. */
__device__ inline uint64_t tile_further(uint64_t descriptor, int bytes)
{
    return descriptor + (uint64_t)(bytes >> 4);
}

/* A tile of ROWS rows of WIDTH 16-bit elements: blocks of columns, one after the other. A block has
 * the longest lines (128, 64 or 32 bytes) that divide a row. */
template <int WIDTH, int ROWS> struct tile_shape {
    static constexpr int COLUMNS = WIDTH % 64 == 0 ? 64 : WIDTH % 32 == 0 ? 32 : 16;
    static constexpr int LINE = 2 * COLUMNS, BLOCKS = WIDTH / COLUMNS;
    static constexpr int BLOCK_BYTES = ROWS * LINE, BYTES = BLOCKS * BLOCK_BYTES;
    static_assert(WIDTH % 16 == 0 && BLOCK_BYTES % 1024 == 0, "blocks are aligned");

    static __device__ inline uint64_t descriptor(uint32_t address)
    {
        return tile_descriptor<LINE>(address, BLOCKS == 1 ? 16 : BLOCK_BYTES);
    }

    /* The same tile from this column on; a multiple of 16. */
    static __device__ inline uint64_t at_column(uint64_t descriptor, int column)
    {
        return tile_further(descriptor, column / COLUMNS * BLOCK_BYTES + column % COLUMNS * 2);
    }

    /* Bytes from the start of the tile to elements 8 * 'chunk' to 8 * 'chunk' + 7 of a row. */
    static __device__ inline int chunk_offset(int row, int chunk)
    {
        constexpr int CHUNKS = LINE / 16; /* of a line */
        const int line = BLOCKS == 1 ? 0 : (int)((unsigned)chunk / CHUNKS) * BLOCK_BYTES;
        const int at = BLOCKS == 1 ? chunk : (int)((unsigned)chunk % CHUNKS);

        return line + row * LINE + (at ^ row / (128 / LINE) % CHUNKS) * 16;
    }
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the kernels that write fp8 operands: the sources of the values, and the transposition
 * of a tile. A thread holds four rows of eight columns; four bytes of a column become one word in
 * shared memory, and whole lines of the transposed matrix leave from there. The word's place is
 * permuted by its column so that there are few bank conflicts. */
#ifndef MEGATRON_QUANTIZE_CUH
#define MEGATRON_QUANTIZE_CUH

#include "common.cuh"
#include "fp8.cuh"
#include "gelu.cuh"

/* quantize_blocks.cu: OPERATION_QUANTIZE with blockwise scales. Squares are e4m3 of a matrix,
 * without column sums. */
size_t quantize_blocks_workspace(const quantize_shape *shape);
void quantize_blocks(cudaStream_t stream, const quantize_shape *shape,
                     const quantize_operands *operands, void *workspace);

namespace
{

constexpr int ROWS = 128, THREAD_ROWS = 4;
constexpr int CHUNKS = ROWS / 16; /* chunks of 16 bytes in a transposed line */

/* Sources: 'load' fetches what eight elements need, 'compute' makes them; PARTS results that are
 * 'cols' columns apart in the output. */

template <typename T> struct cast {
    static constexpr int PARTS = 1;
    struct raw {
        packed<T> x;
    };
    const T *x;
    int64_t stride;

    __device__ void load(raw &r, int64_t row, int64_t col) const
    {
        r.x = load_whole<VECTOR>(x + row * stride + col);
    }
    __device__ void compute(const raw &r, float v[1][VECTOR]) const
    {
        unpack(r.x, v[0]);
    }
};

template <typename T> struct gelu_of {
    static constexpr int PARTS = 1;
    struct raw {
        packed<T> x;
    };
    const T *x;
    int64_t stride;

    __device__ void load(raw &r, int64_t row, int64_t col) const
    {
        r.x = load_whole<VECTOR>(x + row * stride + col);
    }
    __device__ void compute(const raw &r, float v[1][VECTOR]) const
    {
        unpack(r.x, v[0]);
        gelu_tanh<VECTOR>(v[0]);
    }
};

template <typename T> struct gelu_gradient_of {
    static constexpr int PARTS = 1;
    struct raw {
        packed<T> dy, pre;
    };
    const T *dy, *pre;
    int64_t stride;

    __device__ void load(raw &r, int64_t row, int64_t col) const
    {
        r.dy = load_whole<VECTOR>(dy + row * stride + col);
        r.pre = load_whole<VECTOR>(pre + row * stride + col);
    }
    __device__ void compute(const raw &r, float v[1][VECTOR]) const
    {
        float before[VECTOR];

        unpack(r.dy, v[0]);
        unpack(r.pre, before);
        gelu_tanh_gradient<VECTOR>(before, v[0]);
    }
};

__device__ inline float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

template <typename T> struct swiglu_of {
    static constexpr int PARTS = 1;
    struct raw {
        packed<T> gate, up;
    };
    const T *x;
    int64_t cols;

    __device__ void load(raw &r, int64_t row, int64_t col) const
    {
        r.gate = load_whole<VECTOR>(x + row * 2 * cols + col);
        r.up = load_whole<VECTOR>(x + row * 2 * cols + cols + col);
    }
    __device__ void compute(const raw &r, float v[1][VECTOR]) const
    {
        float gate[VECTOR];

        unpack(r.gate, gate);
        unpack(r.up, v[0]);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            v[0][k] *= gate[k] * sigmoid(gate[k]);
    }
};

template <typename T> struct swiglu_gradient_of {
    static constexpr int PARTS = 2;
    struct raw {
        packed<T> dy, gate, up;
    };
    const T *dy, *x;
    int64_t cols;

    __device__ void load(raw &r, int64_t row, int64_t col) const
    {
        r.dy = load_whole<VECTOR>(dy + row * cols + col);
        r.gate = load_whole<VECTOR>(x + row * 2 * cols + col);
        r.up = load_whole<VECTOR>(x + row * 2 * cols + cols + col);
    }
    __device__ void compute(const raw &r, float v[2][VECTOR]) const
    {
        float d[VECTOR];

        unpack(r.dy, d);
        unpack(r.gate, v[0]);
        unpack(r.up, v[1]);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const float open = sigmoid(v[0][k]), silu = v[0][k] * open;
            const float dup = d[k] * silu;

            v[0][k] = d[k] * v[1][k] * (open + silu * (1.0f - open));
            v[1][k] = dup;
        }
    }
};

/* Columns k .. k + 3 of four rows: word k of 'out' has the bytes of column k from row to row. */
__device__ inline void transpose_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d,
                                       uint32_t *out)
{
    const uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    const uint32_t ab2 = __byte_perm(a, b, 0x7362), cd2 = __byte_perm(c, d, 0x7362);

    out[0] = __byte_perm(ab, cd, 0x5410);
    out[1] = __byte_perm(ab, cd, 0x7632);
    out[2] = __byte_perm(ab2, cd2, 0x5410);
    out[3] = __byte_perm(ab2, cd2, 0x7632);
}

/* A transposed tile of ROWS rows on its way through shared memory: COLUMNS lines of CHUNKS chunks.
 */
template <int COLUMNS> struct tile {
    uint32_t word[COLUMNS][CHUNKS * 4];

    /* The chunk of a line in which chunk 'chunk' is. */
    __device__ static int chunk_of(int chunk, int eight)
    {
        return chunk ^ (COLUMNS > CHUNKS * VECTOR ? eight % CHUNKS : eight);
    }

    /* Four rows from 4 * group on, eight columns from 8 * eight on. */
    __device__ void put(int eight, int group, const uint2 *bytes)
    {
        const int place = chunk_of(group / 4, eight) * 4 + group % 4;
        uint32_t column[VECTOR];

        transpose_bytes(bytes[0].x, bytes[1].x, bytes[2].x, bytes[3].x, column);
        transpose_bytes(bytes[0].y, bytes[1].y, bytes[2].y, bytes[3].y, column + 4);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            word[eight * VECTOR + k][place] = column[k];
    }

    __device__ uint4 get(int column, int chunk) const
    {
        return *reinterpret_cast<const uint4 *>(
            &word[column][chunk_of(chunk, column / VECTOR) * 4]);
    }
};

/* Write the part of a tile that is inside the matrix (rows, cols); its column 0 is line 'line' of
 * the transposed matrix. */
template <int COLUMNS, int THREADS>
__device__ inline void store_columns(uint8_t *columns, const tile<COLUMNS> &t, int64_t first_row,
                                     int64_t rows, int64_t first_col, int64_t cols, int64_t line)
{
#pragma unroll
    for (int i = threadIdx.x; i < COLUMNS * CHUNKS; i += THREADS) {
        const int column = i / CHUNKS, chunk = i % CHUNKS;
        const int64_t row = first_row + chunk * 16;

        if (first_col + column < cols && row < rows)
            *reinterpret_cast<uint4 *>(columns + (line + column) * rows + row) =
                t.get(column, chunk);
    }
}

} // namespace

#define WITH_16_BITS(type, call)   \
    do {                           \
        if ((type) == TYPE_BF16) { \
            typedef bf16 T;        \
            call;                  \
        } else {                   \
            typedef fp16 T;        \
            call;                  \
        }                          \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Products with an activation, or its derivative, in the epilogue: y = f(x W^T + b) and
 * dx = (dy W) f'(pre) with the column sums of dx; the same for gates, without these sums.
 *
 * cuBLASLt has such epilogues only for GELU by tanh, and the tensor cores wait for them. Here a
 * block has a producer and two consumer warp groups ("workers"), each with 64 columns of a tile of
 * 256 rows. At the end of a tile a worker rounds its sums to 16 bits and keeps them in registers;
 * it activates and stores them, a few rows per stage, while the products of the next tile run.
 *
 * The products are computed transposed: the columns of y are the M of wgmma, its rows the N. So a
 * thread needs the bias of two columns only, and sums up two columns. Two blocks form a cluster:
 * their tiles have the same rows, so each of them loads half of the rows of x or dy for both (TMA
 * multicast). Blocks are persistent: one per multiprocessor.
 *
 * With a gate the rows of W in a tile are 8 gates, their 8 ups, the next 8 gates, and so on: of the
 * two columns of a thread the second is the up of the first. So y has half as many columns in a
 * tile. The gradient's product has the usual columns; both halves of 'pre' are loaded for it, and
 * their gradients are stored instead. */
#ifndef MEGATRON_HOPPER_LINEAR_CUH
#define MEGATRON_HOPPER_LINEAR_CUH

#include "gate.cuh"
#include "hopper.cuh"

/* For other architectures the kernels are empty, and their functions are unused. */
#pragma nv_diag_suppress 177

namespace
{

constexpr int ROWS = 256, COLUMNS = 128, DEPTH = 64; /* a tile, and the K of a stage */
constexpr int GROUP = 128, WORKERS = 2, GROUPS = 1 + WORKERS, CLUSTER = 2, STAGES = 4;
constexpr int LINE = 128, W_BYTES = COLUMNS * LINE, X_BYTES = ROWS * LINE;
constexpr int SLICE = COLUMNS / WORKERS; /* columns of a worker: a line of 16-bit elements */
constexpr int STEP = 16;                 /* K of one wgmma instruction */
constexpr int STRIPE = 16, STRIPES = ROWS / STRIPE;         /* rows that are activated together */
constexpr int BLOCK = 32, BLOCKS = ROWS / BLOCK, SLOTS = 4; /* rows that are copied together */
constexpr int BLOCK_BYTES = BLOCK * LINE, IN_BLOCK = BLOCK / STRIPE;
/* With a gate, of each block that is copied the first half is gates and the second ups: half the
 * columns forward, half the rows in the gradient, whose blocks are stripes. */
constexpr int HALF_LINE = LINE / 2, HALF_BYTES = BLOCK_BYTES / 2;
constexpr int INTERLEAVE = 8; /* columns of gates, or ups, that are interleaved */
constexpr int WARPS = GROUP / WARP;
constexpr int BAND = 8; /* tiles of rows that are processed together, for the L2 cache */
constexpr int LOADER_REGISTERS = 24, WORKER_REGISTERS = 240;
static_assert((LOADER_REGISTERS + WORKERS * WORKER_REGISTERS) * GROUP <= 65536, "registers");

struct linear_arguments {
    CUtensorMap x;   /* (rows, depth), loaded in parts of tiles */
    CUtensorMap w;   /* loaded in tiles */
    CUtensorMap pre; /* (rows, columns), stored forward, loaded by the gradient, in blocks */
    CUtensorMap y;   /* (rows, columns), stored in blocks */
    /* With a gate 'pre' and the gradient's y have twice as many columns. */
    const void *bias; /* (columns) forward, or NULL */
    float *partial;   /* gradient: column sums of ROWS rows each, or NULL */
    int rows, columns, depth;
};

struct shared_memory {
    uint8_t w[STAGES][W_BYTES], x[STAGES][X_BYTES];
    /* Forward: 'pre' and y of two blocks. Gradient: four blocks that are 'pre', then dx. */
    uint8_t blocks[WORKERS][SLOTS][BLOCK_BYTES];
    uint64_t full[STAGES], empty[STAGES], pre_full[WORKERS][SLOTS];
};

/* The first row of this block's tile, and its first column. */
struct tile {
    int row, column;
};

__device__ inline int lane(void)
{
    return (int)threadIdx.x % WARP;
}

/* Columns of y, or of the gradient's product, in a tile. */
__host__ __device__ constexpr int width_of(bool gradient, bool gated)
{
    return gated && !gradient ? COLUMNS / 2 : COLUMNS;
}

/* A stripe is finished every so many stages. Small blocks are loaded two stripes ahead: memory
 * needs that much time. */
__host__ __device__ constexpr int spread_of(bool gradient, bool gated)
{
    return gated && gradient ? 2 : 1;
}

template <int WIDTH> __device__ inline int tile_count(const struct linear_arguments &a)
{
    return (a.rows + ROWS - 1) / ROWS * (a.columns / (CLUSTER * WIDTH));
}

/* Tile 'number' of a cluster: bands of rows, and in a band column by column. */
template <int WIDTH>
__device__ inline struct tile tile_at(const struct linear_arguments &a, int number)
{
    const int per_band = BAND * (a.columns / (CLUSTER * WIDTH)), first = number / per_band * BAND;
    const int height = min(BAND, (a.rows + ROWS - 1) / ROWS - first), at = number % per_band;

    return {(first + at % height) * ROWS, (at / height * CLUSTER + (int)cluster_rank()) * WIDTH};
}

/* A ring of stages that are filled and emptied in order. */
struct stage {
    int at = 0;
    uint32_t parity = 0;

    __device__ inline void step(void)
    {
        if (++at == STAGES) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* Load a tile of W: K-major forward, in blocks of 64 columns for the gradient. */
template <bool GRADIENT, bool GATED>
__device__ inline void load_weights(const struct linear_arguments &a, uint32_t to, int column,
                                    int k, uint32_t full)
{
    if constexpr (GRADIENT) {
        matrix_load(to, &a.w, column, k, full);
        matrix_load(to + DEPTH * LINE, &a.w, column + SLICE, k, full);
    } else if constexpr (GATED) {
        tile_load_at(to, &a.w, k, 0, 0, column / INTERLEAVE, full);
    } else {
        matrix_load(to, &a.w, k, column, full);
    }
}

/* Load the operands of all tiles. Called by one thread. */
template <bool GRADIENT, bool GATED>
__device__ inline void load(const struct linear_arguments &a, struct shared_memory *shared)
{
    constexpr int PART = ROWS / CLUSTER, WIDTH = width_of(GRADIENT, GATED);
    const int part = (int)cluster_rank() * PART;
    struct stage stage;

    for (int n = (int)blockIdx.x / CLUSTER; n < tile_count<WIDTH>(a);
         n += (int)gridDim.x / CLUSTER) {
        const struct tile tile = tile_at<WIDTH>(a, n);

        for (int k = 0; k < a.depth; k += DEPTH, stage.step()) {
            const uint32_t full = shared_address(&shared->full[stage.at]);

            barrier_wait(shared_address(&shared->empty[stage.at]), stage.parity ^ 1);
            barrier_arrive_expect(full, W_BYTES + X_BYTES);
            matrix_load_shared(shared_address(shared->x[stage.at]) + (uint32_t)(part * LINE), &a.x,
                               k, tile.row + part, full, (1 << CLUSTER) - 1);
            load_weights<GRADIENT, GATED>(a, shared_address(shared->w[stage.at]), tile.column, k,
                                          full);
        }
    }
}

/* One warp group that multiplies. PER_STAGE: stripes that are activated in a stage. */
template <typename T, activation ACTIVATION, bool GRADIENT, int PER_STAGE> struct worker {
    static constexpr bool GATED = ACTIVATION >= ACTIVATION_SWIGLU;
    static constexpr enum gate GATE = (enum gate)(GATED ? ACTIVATION - ACTIVATION_SWIGLU : 0);
    static constexpr int WIDTH = width_of(GRADIENT, GATED), OWN = WIDTH / WORKERS;
    static constexpr int SPREAD = spread_of(GRADIENT, GATED);
    const struct linear_arguments &a;
    struct shared_memory *const shared;
    const int number;
    struct stage stage;
    struct tile before;      /* the tile whose results are kept; its columns are this worker's */
    bool pending = false;    /* there is one */
    uint32_t pre_parity = 0; /* gradient */
    float totals[2];         /* gradient: column sums */
    float sums[ROWS / 2];    /* of this thread: two columns */
    uint32_t kept[ROWS / 4]; /* rounded sums of the tile before */

    __device__ inline worker(const struct linear_arguments &arguments, struct shared_memory *memory,
                             int index)
        : a(arguments), shared(memory), number(index)
    {
#pragma unroll
        for (int i = 0; i < ROWS / 4; i++)
            kept[i] = 0;
    }

    __device__ inline bool leads(void) const
    {
        return threadIdx.x % GROUP == 0;
    }

    /* This thread's first column in a tile; the second one is 8 further on, or its up. */
    __device__ inline int own_column(void) const
    {
        return number * OWN + (int)threadIdx.x % GROUP / WARP * (OWN / WARPS) + lane() / 4;
    }

    /* This warp no longer needs the stage before the current one; both blocks load into it. */
    __device__ inline void release(void)
    {
        const int at = stage.at == 0 ? STAGES - 1 : stage.at - 1;

        if (lane() < CLUSTER)
            barrier_arrive_at(shared_address(&shared->empty[at]), (uint32_t)lane());
    }

    /* Start the products of a stage; 'begins': of the first one of a tile. Wait for those before,
     * and give their stage back. */
    __device__ inline void multiply(bool begins)
    {
        constexpr int SLICE_BYTES = SLICE * LINE, ALONG = STEP * 2, ACROSS = STEP * LINE;
        const uint64_t w =
            tile_descriptor(shared_address(shared->w[stage.at]) + (uint32_t)(number * SLICE_BYTES));
        const uint64_t x = tile_descriptor(shared_address(shared->x[stage.at]));

        barrier_wait(shared_address(&shared->full[stage.at]), stage.parity);
        product_begin();
#pragma unroll
        for (int k = 0; k < DEPTH / STEP; k++)
            product_widest<T, GRADIENT>(sums, tile_further(w, k * (GRADIENT ? ACROSS : ALONG)),
                                        tile_further(x, k * ALONG), !begins || k > 0);
        product_commit();
        product_wait<1>();
        if (!begins)
            release();
        stage.step();
    }

    /* Address of stripe 'i' of a block for load_blocks and store_blocks: 16 rows, and this warp's
     * 16 columns. */
    __device__ inline uint32_t address(int slot, int i) const
    {
        const int row = i * STRIPE + lane() / 16 * 8 + lane() % 8;
        const int chunk = (int)threadIdx.x % GROUP / WARP * 2 + lane() / 8 % 2;

        return shared_address(shared->blocks[number][slot]) +
               (uint32_t)(row * LINE + (chunk ^ row % 8) * 16);
    }

    static __device__ inline void unpack_stripe(const uint32_t (&stripe)[4], float (&v)[8])
    {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 two = unpack_two<T>(stripe[j]);

            v[2 * j] = two.x;
            v[2 * j + 1] = two.y;
        }
    }

    static __device__ inline void pack_stripe(const float (&v)[8], uint32_t (&stripe)[4])
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            stripe[j] = pack_two<T>(v[2 * j], v[2 * j + 1]);
    }

    /* All threads have written a block to shared memory: true for the thread that stores it. */
    __device__ inline bool all_wrote(void)
    {
        shared_written();
        group_sync(1 + number, GROUP);
        return leads() && pending;
    }

    __device__ inline void store(const CUtensorMap *map, int block, int slot)
    {
        matrix_store(map, before.column + number * SLICE, before.row + block * BLOCK,
                     shared_address(shared->blocks[number][slot]));
    }

    /* Activate stripe 'i' of the tile before. */
    __device__ inline void finish_forward(int i)
    {
        const int block = i / IN_BLOCK, slot = block % 2 * 2, in = i % IN_BLOCK;
        uint32_t stripe[4] = {kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3]};
        float v[8];

        if (in == 0) {
            if (leads())
                tile_store_wait<1>();
            group_sync(1 + number, GROUP);
        }
        store_blocks<true>(address(slot, in), stripe);
        unpack_stripe(stripe, v);
        if (ACTIVATION == ACTIVATION_GELU_TANH)
            gelu_tanh<8>(v);
        else
            gelu_erf<8, false>(v);
        pack_stripe(v, stripe);
        store_blocks<true>(address(slot + 1, in), stripe);
        if (in == IN_BLOCK - 1 && all_wrote()) {
            store(&a.pre, block, slot);
            store(&a.y, block, slot + 1);
            tile_store_commit();
        }
    }

    /* Address for store_blocks of stripe 'i' of a block of gates and ups: 16 rows, and this warp's
     * 8 columns of both. */
    __device__ inline uint32_t gated_address(int slot, int i) const
    {
        const int row = i * STRIPE + lane() / 16 * 8 + lane() % 8;

        return half_line_address(slot, row) + (uint32_t)(lane() / 8 % 2 * HALF_BYTES);
    }

    /* Address of this warp's 8 columns in a row of 32; TMA swizzles lines of 64 bytes in pairs. */
    __device__ inline uint32_t half_line_address(int slot, int row) const
    {
        const int chunk = (int)threadIdx.x % GROUP / WARP;

        return shared_address(shared->blocks[number][slot]) +
               (uint32_t)(row * HALF_LINE + (chunk ^ row / 2 % 4) * 16);
    }

    __device__ inline void store_gated(int block, int slot)
    {
        const int column = before.column + number * OWN, row = before.row + block * BLOCK;
        const uint32_t from = shared_address(shared->blocks[number][slot]);

        matrix_store(&a.pre, column, row, from);
        matrix_store(&a.pre, a.columns + column, row, from + HALF_BYTES);
        matrix_store(&a.y, column, row, from + BLOCK_BYTES);
    }

    /* Apply the gate to stripe 'i' of the tile before. */
    __device__ inline void finish_gated_forward(int i)
    {
        const int block = i / IN_BLOCK, slot = block % 2 * 2, in = i % IN_BLOCK;
        const uint32_t stripe[4] = {kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3]};
        uint32_t y[2];
        float gate[4], up[4];

        if (in == 0) {
            if (leads())
                tile_store_wait<1>();
            group_sync(1 + number, GROUP);
        }
        store_blocks<true>(gated_address(slot, in), stripe);
        unpack_pair(stripe[0], stripe[2], gate);
        unpack_pair(stripe[1], stripe[3], up);
        gate_function<GATE, 4>::apply(gate, up);
        y[0] = pack_two<T>(up[0], up[1]);
        y[1] = pack_two<T>(up[2], up[3]);
        store_two_blocks(half_line_address(slot + 1, in * STRIPE + lane() % 16), y);
        if (in == IN_BLOCK - 1 && all_wrote()) {
            store_gated(block, slot);
            tile_store_commit();
        }
    }

    static __device__ inline void unpack_pair(uint32_t a, uint32_t b, float (&v)[4])
    {
        const float2 first = unpack_two<T>(a), second = unpack_two<T>(b);

        v[0] = first.x;
        v[1] = first.y;
        v[2] = second.x;
        v[3] = second.y;
    }

    /* Start to load a block of 'pre' of a tile. Called by one thread. */
    __device__ inline void load_pre(const struct tile &tile, int block)
    {
        const uint32_t full = shared_address(&shared->pre_full[number][block % SLOTS]);
        const uint32_t to = shared_address(shared->blocks[number][block % SLOTS]);
        const int column = tile.column + number * SLICE;
        const int row = tile.row + block * (GATED ? STRIPE : BLOCK);

        barrier_arrive_expect(full, BLOCK_BYTES);
        matrix_load(to, &a.pre, column, row, full);
        if constexpr (GATED)
            matrix_load(to + HALF_BYTES, &a.pre, a.columns + column, row, full);
    }

    /* Write the column sums of the tile before. */
    __device__ inline void store_totals(void)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            totals[i] += __shfl_xor_sync(~0u, totals[i], 1);
            totals[i] += __shfl_xor_sync(~0u, totals[i], 2);
            if (a.partial && pending && lane() % 4 == 0)
                a.partial[(int64_t)(before.row / ROWS) * a.columns + before.column + own_column() +
                          8 * i] = totals[i];
        }
    }

    /* Multiply stripe 'i' of the tile before by the derivative at 'pre', in place. */
    __device__ inline void finish_gradient(int i)
    {
        const int block = i / IN_BLOCK, slot = block % SLOTS, in = i % IN_BLOCK;
        const uint32_t at = address(slot, in);
        uint32_t stripe[4] = {kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3]};
        float v[8], x[8];

        if (in == 0 && pending)
            barrier_wait(shared_address(&shared->pre_full[number][slot]), pre_parity);
        if (in == IN_BLOCK - 1 && slot == SLOTS - 1 && pending)
            pre_parity ^= 1;
        if (i == 0)
            totals[0] = totals[1] = 0;
        unpack_stripe(stripe, v);
        load_blocks<true>(at, stripe);
        unpack_stripe(stripe, x);
        if (ACTIVATION == ACTIVATION_GELU_TANH)
            gelu_tanh_gradient<8>(x, v);
        else
            gelu_erf_gradient<8, false>(x, v);
        pack_stripe(v, stripe);
        store_blocks<true>(at, stripe);
        unpack_stripe(stripe, v); /* rounded: the sums are over the stored values */
        totals[0] += v[0] + v[1] + (v[4] + v[5]);
        totals[1] += v[2] + v[3] + (v[6] + v[7]);
        if (in == 0 && block + 2 < BLOCKS && leads() && pending) {
            tile_store_wait<1>(); /* all but the block before */
            load_pre(before, block + 2);
        }
        if (in == IN_BLOCK - 1 && all_wrote()) {
            store(&a.y, block, slot);
            tile_store_commit();
        }
        if (i == STRIPES - 1)
            store_totals();
    }

    /* Turn block 'i' of gates and ups into their gradients, in place. */
    __device__ inline void finish_gated_gradient(int i)
    {
        const int slot = i % SLOTS;
        const uint32_t gate_at = address(slot, 0), up_at = address(slot, 1);
        uint32_t gates[4], ups[4];

        if (pending) {
            barrier_wait(shared_address(&shared->pre_full[number][slot]), pre_parity);
            if (slot == SLOTS - 1)
                pre_parity ^= 1;
        }
        load_blocks<true>(gate_at, gates);
        load_blocks<true>(up_at, ups);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            float gate[4], up[4], d[4];

            unpack_pair(gates[j], gates[j + 1], gate);
            unpack_pair(ups[j], ups[j + 1], up);
            unpack_pair(kept[4 * i + j], kept[4 * i + j + 1], d);
            gate_function<GATE, 4>::differentiate(gate, up, d);
            gates[j] = pack_two<T>(gate[0], gate[1]);
            gates[j + 1] = pack_two<T>(gate[2], gate[3]);
            ups[j] = pack_two<T>(up[0], up[1]);
            ups[j + 1] = pack_two<T>(up[2], up[3]);
        }
        store_blocks<true>(gate_at, gates);
        store_blocks<true>(up_at, ups);
        if (i + 2 < STRIPES && leads() && pending) {
            tile_store_wait<1>(); /* all but the block before */
            load_pre(before, i + 2);
        }
        if (all_wrote()) {
            const int column = before.column + number * SLICE, row = before.row + i * STRIPE;
            const uint32_t from = shared_address(shared->blocks[number][slot]);

            matrix_store(&a.y, column, row, from);
            matrix_store(&a.y, a.columns + column, row, from + HALF_BYTES);
            tile_store_commit();
        }
    }

    __device__ inline void finish(int i)
    {
        if constexpr (GATED && GRADIENT)
            finish_gated_gradient(i);
        else if constexpr (GATED)
            finish_gated_forward(i);
        else if constexpr (GRADIENT)
            finish_gradient(i);
        else
            finish_forward(i);
    }

    /* Round the sums of a tile, plus the bias. */
    __device__ inline void keep(const struct tile &tile)
    {
        float bias[2] = {0, 0};

        if (!GRADIENT && a.bias) {
            bias[0] = to_float(((const T *)a.bias)[tile.column + own_column()]);
            bias[1] =
                to_float(((const T *)a.bias)[tile.column + own_column() + (GATED ? a.columns : 8)]);
        }
        product_wait<0>();
        settle(sums);
        release();
#pragma unroll
        for (int i = 0; i < ROWS / 4; i++)
            kept[i] = pack_two<T>(sums[2 * i] + bias[i % 2], sums[2 * i + 1] + bias[i % 2]);
        before = tile;
        pending = true;
    }

    __device__ inline void work(void)
    {
        constexpr int SHARED_STAGES = STRIPES / PER_STAGE;

#pragma unroll 1
        for (int n = (int)blockIdx.x / CLUSTER; n < tile_count<WIDTH>(a);
             n += (int)gridDim.x / CLUSTER) {
            const struct tile tile = tile_at<WIDTH>(a, n);

#pragma unroll
            for (int k = 0; k < SHARED_STAGES; k++) {
                multiply(k == 0);
#pragma unroll
                for (int i = 0; i < PER_STAGE; i++)
                    finish(k * PER_STAGE + i);
                if (SPREAD > 1)
                    multiply(false);
            }
            if (GRADIENT && leads()) {
                tile_store_wait<2>(); /* all but the last two blocks */
                load_pre(tile, 0);
                load_pre(tile, 1);
            }
#pragma unroll 1
            for (int k = SPREAD * SHARED_STAGES * DEPTH; k < a.depth; k += DEPTH)
                multiply(false);
            keep(tile);
        }
#pragma unroll
        for (int i = 0; i < STRIPES; i++)
            finish(i);
        if (leads())
            tile_store_wait();
    }
};

/* All of a kernel: the work of one block. */
template <typename T, activation ACTIVATION, bool GRADIENT, int PER_STAGE>
__device__ inline void run_block(const struct linear_arguments &a, struct shared_memory *shared)
{
    constexpr bool GATED = ACTIVATION >= ACTIVATION_SWIGLU;
    const int group = threadIdx.x / GROUP;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&shared->full[i]), 1);
            barrier_init(shared_address(&shared->empty[i]), CLUSTER * WORKERS * WARPS);
        }
        for (int i = 0; i < WORKERS * SLOTS; i++)
            barrier_init(shared_address(&shared->pre_full[i / SLOTS][i % SLOTS]), 1);
        barrier_init_done();
    }
    cluster_sync();
    if (group == 0) {
        registers_fewer<LOADER_REGISTERS>();
        if (threadIdx.x == 0)
            load<GRADIENT, GATED>(a, shared);
    } else {
        registers_more<WORKER_REGISTERS>();
        worker<T, ACTIVATION, GRADIENT, PER_STAGE>(a, shared, group - 1).work();
    }
    cluster_sync(); /* the other block may still arrive at barriers of this one */
}

typedef void (*kernel)(struct linear_arguments);

} // namespace

/* The kernel of a gated layer, forward or of the gradient; NULL: there is none. */
const void *hopper_gated_kernel(const struct linear_shape *shape, int gradient);

#endif

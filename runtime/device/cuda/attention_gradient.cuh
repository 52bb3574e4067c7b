/* What both kernels of the gradient of attention share.
 *
 * A block has three groups of 128 threads. A warp of the first one loads tiles ahead, for the next
 * piece of work too; the other groups multiply, each for 64 rows of the tile that the block holds.
 * They share nothing but what is loaded: scores stay in registers, and turn into an operand of the
 * next product there. Blocks take pieces of work from a counter, long ones of a head first; who
 * does a piece makes no difference to its result. */
#ifndef MEGATRON_ATTENTION_GRADIENT_CUH
#define MEGATRON_ATTENTION_GRADIENT_CUH

#include "attention_gradient.h"
#include "hopper.cuh"

/* For other architectures the kernels are empty, and what they call is not used. */
#pragma nv_diag_suppress 177

constexpr int WIDTH = 64, TILE = 128, GROUP = 128, WORKERS = 2, GROUPS = 1 + WORKERS;
constexpr int SLICE = TILE / WORKERS; /* rows of a tile that a group of threads holds */
constexpr int LINE = WIDTH * 2, TILE_BYTES = TILE * LINE, SLICE_BYTES = SLICE * LINE;
constexpr int STAGES = 3, PLACES = 2;
constexpr int WORKER_WARPS = WORKERS * GROUP / WARP;
constexpr int DEPTH = 16; /* of one product instruction */
constexpr int SCORES = SLICE * TILE / GROUP, SUMS = SLICE * WIDTH / GROUP; /* of a thread */
constexpr float LOG2_E = 1.44269504088896340736f;

/* What the second kernel has to know of a tile of queries; the first one writes it. Rows behind
 * the last query have an infinite sum of exponentials, so they do not count. */
struct row_facts {
    float minus_lse[TILE]; /* times log2(e) */
    float minus_delta[TILE];
    int32_t start[TILE]; /* with documents */
};

struct gradient_arguments {
    CUtensorMap q, k, v, o, d_o; /* loaded in tiles */
    CUtensorMap dq, dk, dv;      /* stored in slices */
    const float *lse;
    const int32_t *start;    /* or NULL */
    struct row_facts *facts; /* (batch, heads, query_tiles) */
    int32_t *next;           /* of the pieces of work, for each kernel */
    float scale;
    int batch, heads, groups, queries, keys, query_tiles, key_tiles;
    int ahead; /* query i sees keys 0 .. i + ahead */
};

/* Put a kernel on 'stream'; -1 if that cannot be done. */
int launch_query_gradient(cudaStream_t stream, cudnnDataType_t type,
                          const struct gradient_arguments &a);
int launch_key_gradient(cudaStream_t stream, cudnnDataType_t type,
                        const struct gradient_arguments &a);

/* Has the GPU, the current device, code of its own for them? */
bool has_gradient_code(void);

namespace
{

/* A piece of work: 'tile' of 'head' (of the keys in the second kernel) of 'sample' against 'count'
 * tiles from 'first' on. */
struct piece {
    int sample, head, tile, first, count;
};

/* Held: the tiles of a piece of work. Passing: those it goes along. */
struct barriers {
    uint64_t held_full[PLACES], held_empty[PLACES];
    uint64_t passing_full[STAGES], passing_empty[STAGES];
};

/* A ring of places that are filled and emptied in turn. */
template <int COUNT> struct ring {
    int at = 0;
    uint32_t parity = 0;

    __device__ inline void step(void)
    {
        if (++at == COUNT) {
            at = 0;
            parity ^= 1;
        }
    }
};

__device__ inline int lane(void)
{
    return (int)threadIdx.x % WARP;
}

/* The row of its slice that this thread's first scores belong to; the others are 8 below. */
__device__ inline int first_row(void)
{
    return (int)threadIdx.x % GROUP / WARP * 16 + lane() / 4;
}

/* And the column; the next one is beside it, then 8 further on, and so on. */
__device__ inline int first_column(void)
{
    return lane() % 4 * 2;
}

/* The groups that multiply take turns, so that one has the tensor cores while the other one does
 * the rest. Wait for this worker's turn, and pass it on. */
__device__ inline void turn_wait(int worker)
{
    group_sync(1 + WORKERS + worker, WORKERS * GROUP);
}
__device__ inline void turn_pass(int worker)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + WORKERS + (worker + 1) % WORKERS),
                 "n"(WORKERS * GROUP)
                 : "memory");
}

/* The first worker begins. */
__device__ inline void turn_begin(int worker)
{
    if (worker == WORKERS - 1)
        turn_pass(worker);
}

/* All threads of a warp are done with what the barrier stands for. */
__device__ inline void release(const uint64_t *barrier)
{
    __syncwarp();
    if (lane() == 0)
        barrier_arrive(shared_address(barrier));
}

/* All threads of the block. */
__device__ inline void init_barriers(struct barriers *b)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < PLACES; i++) {
            barrier_init(shared_address(&b->held_full[i]), 1);
            barrier_init(shared_address(&b->held_empty[i]), WORKER_WARPS);
        }
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&b->passing_full[i]), 1);
            barrier_init(shared_address(&b->passing_empty[i]), WORKER_WARPS);
        }
        barrier_init_done();
    }
    __syncthreads();
}

/* Registers of the groups: those that a block has to begin with are shared out anew. */
constexpr int LOADER_REGISTERS = 24, WORKER_REGISTERS = 240;
static_assert((LOADER_REGISTERS + WORKERS * WORKER_REGISTERS) * GROUP <= 65536, "registers");

/* The next piece of work; false if there is none. All threads of a warp. */
__device__ inline bool take(const struct gradient_arguments &a, int32_t *next, int tiles, int heads,
                            struct piece *piece)
{
    int number = 0;

    if (lane() == 0)
        number = atomicAdd(next, 1);
    number = __shfl_sync(~0u, number, 0);
    piece->tile = number % tiles;
    piece->head = number / tiles % heads;
    piece->sample = number / tiles / heads;
    return piece->sample < a.batch;
}

/* scores = A B', a slice of rows against a tile of rows. */
template <typename T>
__device__ inline void multiply_rows(float (&scores)[SCORES], uint64_t a, uint64_t b)
{
    product_wide<T, false>(scores, a, b);
#pragma unroll
    for (int i = 1; i < WIDTH / DEPTH; i++)
        product_wide<T, true>(scores, tile_further(a, i * DEPTH * 2),
                              tile_further(b, i * DEPTH * 2));
}

/* Scores as the operand of a product. */
template <typename T>
__device__ inline void to_operand(const float (&scores)[SCORES],
                                  uint32_t (&operand)[TILE / DEPTH][4])
{
#pragma unroll
    for (int i = 0; i < TILE / DEPTH; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            operand[i][j] = pack_two<T>(scores[8 * i + 2 * j], scores[8 * i + 2 * j + 1]);
}

/* sums += A B, scores against the rows of a tile. */
template <typename T>
__device__ inline void add_rows(float (&sums)[SUMS], const uint32_t (&a)[TILE / DEPTH][4],
                                uint64_t b)
{
#pragma unroll
    for (int i = 0; i < TILE / DEPTH; i++)
        product_held<T>(sums, a[i], tile_further(b, i * DEPTH * LINE));
}

/* Write a slice of sums, times 'scale', to shared memory as it is stored from there. */
template <typename T>
__device__ inline void put_slice(const float (&sums)[SUMS], float scale, uint8_t *slice)
{
    const int row = (int)threadIdx.x % GROUP / WARP * 16 + lane() % 16;
    const uint32_t line = shared_address(slice) + (uint32_t)(row * LINE);

#pragma unroll
    for (int i = 0; i < SUMS / 8; i++) {
        const int chunk = 2 * i + lane() / 16;
        uint32_t block[4];

#pragma unroll
        for (int j = 0; j < 4; j++)
            block[j] = pack_two<T>(sums[8 * i + 2 * j] * scale, sums[8 * i + 2 * j + 1] * scale);
        store_blocks(line + (uint32_t)((chunk ^ row % 8) * 16), block);
    }
}

/* No more work: a piece without tiles, and a tile for the product that the workers begin before
 * they store their last piece. One thread. */
__device__ inline void say_end(struct barriers *b, struct piece *piece, const ring<PLACES> &held,
                               const ring<STAGES> &passing)
{
    piece->count = 0;
    barrier_arrive(shared_address(&b->held_full[held.at]));
    barrier_wait(shared_address(&b->passing_empty[passing.at]), passing.parity ^ 1);
    barrier_arrive(shared_address(&b->passing_full[passing.at]));
}

/* Until the slice in shared memory has been stored and may be written again. */
__device__ inline void wait_for_slice(int worker)
{
    if (threadIdx.x % GROUP == 0)
        tile_store_wait();
    group_sync(1 + worker, GROUP);
}

/* The slice was written by all threads of the group: true for the one that is to store it. */
__device__ inline bool slice_is_written(int worker)
{
    shared_written();
    group_sync(1 + worker, GROUP);
    return threadIdx.x % GROUP == 0;
}

/* What a block does: the first group loads, the others work. */
template <typename WORKER, typename SHARED>
__device__ inline void run_groups(const struct gradient_arguments &a,
                                  void (*load)(const struct gradient_arguments &, SHARED *))
{
    extern __shared__ __align__(1024) uint8_t memory[];
    SHARED *shared = reinterpret_cast<SHARED *>(memory);
    const int group = threadIdx.x / GROUP;

    init_barriers(&shared->barriers);
    if (group == 0) {
        registers_fewer<LOADER_REGISTERS>();
        if (threadIdx.x < WARP)
            load(a, shared);
    } else {
        registers_more<WORKER_REGISTERS>();
        WORKER(a, shared, group - 1).work();
    }
}

/* A block of 'kernel' for each processor; -1 if that cannot be done. */
template <typename SHARED>
int launch(cudaStream_t stream, void (*kernel)(struct gradient_arguments),
           const struct gradient_arguments &a)
{
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SHARED)))
        return -1;
    kernel<<<(unsigned)processor_count(), GROUPS * GROUP, sizeof(SHARED), stream>>>(a);
    return cudaPeekAtLastError() ? -1 : 0;
}

} // namespace

#endif

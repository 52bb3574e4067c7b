/* SPDX-License-Identifier: Apache-2.0 */
/* Hopper (sm_90a) instructions without a C++ intrinsic: mbarriers in shared memory, tile copies by
 * the tensor memory accelerator (TMA), warpgroup matrix products (wgmma), clusters. Addresses are
 * shared-memory addresses as 32-bit numbers. */
#ifndef MEGATRON_HOPPER_CUH
#define MEGATRON_HOPPER_CUH

#include <cuda.h>
#include <cudaTypedefs.h>

#include "common.cuh"
#include "hopper_tile.cuh"

/* The driver's function that describes a tensor for TMA, or NULL. */
static inline PFN_cuTensorMapEncodeTiled_v12000 find_tensor_map_encode(void)
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                12000, cudaEnableDefault, &found);
#else
    const cudaError_t status =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif

    if (status || found != cudaDriverEntryPointSuccess)
        return NULL;
    return (PFN_cuTensorMapEncodeTiled_v12000)function;
}

/* Describe a tensor of 16-bit elements with 'rank' dimensions, at most 4, that is copied in boxes
 * whose lines have 128, 64 or 32 bytes, swizzled in shared memory over as many. False if that is
 * impossible. */
static inline bool describe_tensor(CUtensorMap *map, bool is_bf16, int rank, const void *tensor,
                                   const cuuint64_t *dims, const cuuint64_t *pitch,
                                   const cuuint32_t *box)
{
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_tensor_map_encode();
    const cuuint32_t ones[4] = {1, 1, 1, 1};
    const CUtensorMapSwizzle swizzle = box[0] == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                                       : box[0] == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                      : CU_TENSOR_MAP_SWIZZLE_32B;

    return encode &&
           !encode(map,
                   is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                   (cuuint32_t)rank, (void *)tensor, dims, pitch, box, ones,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Is there code of 'kernel' for exactly this architecture, which alone has its instructions? An
 * empty kernel would do nothing, and one with fewer registers per thread than its warp groups
 * redistribute, 'registers' together, would hang. */
static inline bool has_hopper_code(const void *kernel, int groups, int registers)
{
    cudaFuncAttributes attributes;

    if (cudaFuncGetAttributes(&attributes, kernel)) {
        cudaGetLastError();
        return false;
    }
    return attributes.binaryVersion == 90 && attributes.numRegs * groups >= registers;
}

__device__ inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Barriers ----------------------------------------------------------------------------------- */

__device__ inline void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

/* Make barriers visible to the copies and to the blocks of the cluster that arrive at them. */
__device__ inline void barrier_init_done(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrive, and make the barrier expect this many bytes. */
__device__ inline void barrier_arrive_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Wait until the phase with this parity completes. */
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done;

    do {
        asm volatile("{\n\t"
                     ".reg .pred done;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
                     "selp.b32 %0, 1, 0, done;\n\t"
                     "}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

/* Clusters ----------------------------------------------------------------------------------- */

/* This block's number in its cluster. */
__device__ inline uint32_t cluster_rank(void)
{
    uint32_t rank;

    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Wait for all threads of the cluster. */
__device__ inline void cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release;\n\t"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}

/* Arrive at the barrier with this address in the shared memory of another block of the cluster. */
__device__ inline void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    asm volatile("{\n\t"
                 ".reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t"
                 "}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/* Arrive at a barrier of warp groups without waiting (bar.arrive); 'threads' is how many meet. */
__device__ inline void group_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Set the register count of this warp group (setmaxnreg); all its warps call it. */
template <int COUNT> __device__ inline void registers_fewer(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ inline void registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* Copies ------------------------------------------------------------------------------------- */

/* Bulk copy, a multiple of 16 bytes and aligned to 16; the barrier counts the bytes. */
__device__ inline void bytes_load(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* TMA load of the tile at these coordinates, innermost first; the barrier counts its bytes.
 * Elements outside the tensor are 0. */
__device__ inline void tile_load_at(uint32_t to, const CUtensorMap *map, int x, int y, int z, int w,
                                    uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* The same for a matrix. */
__device__ inline void matrix_load(uint32_t to, const CUtensorMap *map, int x, int y,
                                   uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y)
                 : "memory");
}

/* Load into every block of the cluster whose bit is set, at the same address; the barrier at the
 * same address in each of them counts the bytes (TMA multicast). */
__device__ inline void matrix_load_shared(uint32_t to, const CUtensorMap *map, int x, int y,
                                          uint32_t barrier, uint16_t blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(blocks), "r"(x), "r"(y)
                 : "memory");
}

__device__ inline void matrix_store(const CUtensorMap *map, int x, int y, uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y)
                 : "memory");
}

/* TMA store; elements outside the tensor are not written. */
__device__ inline void tile_store_at(const CUtensorMap *map, int x, int y, int z, int w,
                                     uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ inline void tile_store_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Wait until this thread's stores, except the last PENDING groups, have read their data from shared
 * memory. */
template <int PENDING = 0> __device__ inline void tile_store_wait(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* Make this thread's writes to shared memory visible to copies (async proxy fence). */
__device__ inline void shared_written(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Products of warp groups --------------------------------------------------------------------- */

__device__ inline void product_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void product_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Wait until at most PENDING committed groups are in flight. */
template <int PENDING> __device__ inline void product_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Keep the compiler from using the registers of a product before it has completed. */
template <int COUNT> __device__ inline void settle(float (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#define PRODUCT_8(how, d, n)                                                              \
    how(d[n]), how(d[n + 1]), how(d[n + 2]), how(d[n + 3]), how(d[n + 4]), how(d[n + 5]), \
        how(d[n + 6]), how(d[n + 7])
#define PRODUCT_32(how, d, n)                                                  \
    PRODUCT_8(how, d, n), PRODUCT_8(how, d, n + 8), PRODUCT_8(how, d, n + 16), \
        PRODUCT_8(how, d, n + 24)

#define PRODUCT_64X128X16(types, how, add, d, a, b)                                       \
    asm volatile("{\n\t"                                                                  \
                 ".reg .pred add;\n\t"                                                    \
                 "setp.ne.b32 add, " add ", 0;\n\t"                                       \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." types " {"                \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
                 "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, " \
                 "%58, %59, %60, %61, %62, %63}, %64, %65, add, 1, 1, 0, 0;\n\t"          \
                 "}"                                                                      \
                 : PRODUCT_32(how, d, 0), PRODUCT_32(how, d, 32)                          \
                 : "l"(a), "l"(b))

#define PRODUCT_64X256X16(types, by, d, a, b, add)                                           \
    asm volatile("{\n\t"                                                                     \
                 ".reg .pred add;\n\t"                                                       \
                 "setp.ne.b32 add, %130, 0;\n\t"                                             \
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." types " {"                   \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "         \
                 "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "         \
                 "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, "         \
                 "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "         \
                 "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, "         \
                 "%67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "         \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, "         \
                 "%93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, "         \
                 "%105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, "        \
                 "%116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "        \
                 "%127"                                                                      \
                 "}, %128, %129, add, 1, 1, " by ", 0;\n\t"                                  \
                 "}"                                                                         \
                 : PRODUCT_32("+f", d, 0), PRODUCT_32("+f", d, 32), PRODUCT_32("+f", d, 64), \
                   PRODUCT_32("+f", d, 96)                                                   \
                 : "l"(a), "l"(b), "r"(add))

#define PRODUCT_64X64X16(types, how, add, d, a, b)                                        \
    asm volatile("{\n\t"                                                                  \
                 ".reg .pred add;\n\t"                                                    \
                 "setp.ne.b32 add, " add ", 0;\n\t"                                       \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " {"                 \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
                 "%30, %31}, %32, %33, add, 1, 1, 0, 0;\n\t"                              \
                 "}"                                                                      \
                 : PRODUCT_32(how, d, 0)                                                  \
                 : "l"(a), "l"(b))

#define HELD_PRODUCT_64X64X16(types, d, a, b)                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." types " {"                 \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
                 "%30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                      \
                 : PRODUCT_32("+f", d, 0)                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#define HELD_PRODUCT_64X80X16(types, d, a, b)                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n80k16.f32." types " {"                 \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, "                    \
                 "{%40, %41, %42, %43}, %44, 1, 1, 1, 1;"                                 \
                 : PRODUCT_32("+f", d, 0), PRODUCT_8("+f", d, 32)                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#define HELD_PRODUCT_64X96X16(types, d, a, b)                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32." types " {"                 \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
                 "%44, %45, %46, %47}, {%48, %49, %50, %51}, %52, 1, 1, 1, 1;"            \
                 : PRODUCT_32("+f", d, 0), PRODUCT_8("+f", d, 32), PRODUCT_8("+f", d, 40) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#define HELD_PRODUCT_64X128X16(types, d, a, b)                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." types " {"                \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
                 "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
                 "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, " \
                 "%58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"  \
                 : PRODUCT_32("+f", d, 0), PRODUCT_32("+f", d, 32)                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/* d (64 x 128 over a warp group) = or += A (64 x 16) B (16 x 128), both K-major in shared memory.
 * Asynchronous. */
template <typename T, bool ADD>
__device__ inline void product_wide(float (&d)[64], uint64_t a, uint64_t b)
{
    if constexpr (__is_same(T, bf16) && ADD)
        PRODUCT_64X128X16("bf16.bf16", "+f", "1", d, a, b);
    else if constexpr (__is_same(T, bf16))
        PRODUCT_64X128X16("bf16.bf16", "=f", "0", d, a, b);
    else if constexpr (ADD)
        PRODUCT_64X128X16("f16.f16", "+f", "1", d, a, b);
    else
        PRODUCT_64X128X16("f16.f16", "=f", "0", d, a, b);
}

/* The same for 64 columns. */
template <typename T, bool ADD>
__device__ inline void product_wide(float (&d)[32], uint64_t a, uint64_t b)
{
    if constexpr (__is_same(T, bf16) && ADD)
        PRODUCT_64X64X16("bf16.bf16", "+f", "1", d, a, b);
    else if constexpr (__is_same(T, bf16))
        PRODUCT_64X64X16("bf16.bf16", "=f", "0", d, a, b);
    else if constexpr (ADD)
        PRODUCT_64X64X16("f16.f16", "+f", "1", d, a, b);
    else
        PRODUCT_64X64X16("f16.f16", "=f", "0", d, a, b);
}

/* d (64 x 256) = or, if 'add', += A (64 x 16) B (16 x 256), B K-major. ACROSS: A has the result's
 * rows contiguous (MN-major), else it is K-major. Asynchronous. */
template <typename T, bool ACROSS>
__device__ inline void product_widest(float (&d)[128], uint64_t a, uint64_t b, int add)
{
    if constexpr (__is_same(T, bf16) && ACROSS)
        PRODUCT_64X256X16("bf16.bf16", "1", d, a, b, add);
    else if constexpr (__is_same(T, bf16))
        PRODUCT_64X256X16("bf16.bf16", "0", d, a, b, add);
    else if constexpr (ACROSS)
        PRODUCT_64X256X16("f16.f16", "1", d, a, b, add);
    else
        PRODUCT_64X256X16("f16.f16", "0", d, a, b, add);
}

/* d (64 x 64, 80, 96 or 128) += A (64 x 16) B (16 x as many), A in registers, B in shared memory
 * with the result's columns contiguous. Asynchronous. */
#define PRODUCT_HELD(columns, registers)                                                         \
    template <typename T>                                                                        \
    __device__ inline void product_held(float(&d)[registers], const uint32_t(&a)[4], uint64_t b) \
    {                                                                                            \
        if constexpr (__is_same(T, bf16))                                                        \
            HELD_PRODUCT_64X##columns##X16("bf16.bf16", d, a, b);                                \
        else                                                                                     \
            HELD_PRODUCT_64X##columns##X16("f16.f16", d, a, b);                                  \
    }
PRODUCT_HELD(64, 32)
PRODUCT_HELD(80, 40)
PRODUCT_HELD(96, 48)
PRODUCT_HELD(128, 64)
#undef PRODUCT_HELD

/* ldmatrix and stmatrix: four blocks of 8 x 8 elements of 16 bits; lane 8 i + r has the address of
 * row r of block i. TRANSPOSED: a row in memory is a column of the block. */
template <bool TRANSPOSED>
__device__ inline void load_blocks(uint32_t address, uint32_t (&block)[4])
{
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(block[0]), "=r"(block[1]), "=r"(block[2]), "=r"(block[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(block[0]), "=r"(block[1]), "=r"(block[2]), "=r"(block[3])
                     : "r"(address)
                     : "memory");
}
template <bool TRANSPOSED = false>
__device__ inline void store_blocks(uint32_t address, const uint32_t (&block)[4])
{
    if constexpr (TRANSPOSED)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
            "r"(block[0]), "r"(block[1]), "r"(block[2]), "r"(block[3])
            : "memory");
    else
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
            "r"(block[0]), "r"(block[1]), "r"(block[2]), "r"(block[3])
            : "memory");
}

/* The same for two blocks, each transposed. */
__device__ inline void store_two_blocks(uint32_t address, const uint32_t (&block)[2])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
                 "r"(block[0]), "r"(block[1])
                 : "memory");
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all kernel files: vectors of eight elements held as fp32, reductions, launches. */
#ifndef MEGATRON_COMMON_CUH
#define MEGATRON_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels.h"

typedef __nv_bfloat16 bf16;
typedef __half fp16;

constexpr int VECTOR = 8;
constexpr int WARP = 32;

__device__ inline float to_float(float x)
{
    return x;
}
__device__ inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}
__device__ inline float to_float(fp16 x)
{
    return __half2float(x);
}
__device__ inline float to_float(double x)
{
    return (float)x;
}

template <typename T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline fp16 from_float<fp16>(float x)
{
    return __float2half_rn(x);
}
template <> __device__ inline double from_float<double>(float x)
{
    return x;
}

/* V elements as stored in memory, in words: the compiler unpacks an array of 16-bit elements right
 * after the load, which stalls. */
template <typename T, int V = VECTOR>
struct __align__(V * sizeof(T) < 16 ? V * sizeof(T) : 16) packed
{
    uint32_t word[V * sizeof(T) / 4];

    __device__ inline T get(int i) const
    {
        if constexpr (sizeof(T) == 4) {
            return __uint_as_float(word[i]);
        } else {
            const uint16_t bits = (uint16_t)(word[i / 2] >> 16 * (i % 2));

            return reinterpret_cast<const T &>(bits);
        }
    }

    /* In order: the first element of a word clears the other. */
    __device__ inline void set(int i, T x)
    {
        if constexpr (sizeof(T) == 4) {
            word[i] = __float_as_uint(x);
        } else {
            const uint32_t bits = reinterpret_cast<const uint16_t &>(x);

            word[i / 2] = i % 2 ? word[i / 2] | bits << 16 : bits;
        }
    }
};

/* Two 16-bit elements at a time: half the instructions. */
template <typename T> __device__ inline float2 unpack_two(uint32_t two);
template <> __device__ inline float2 unpack_two<bf16>(uint32_t two)
{
    return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
}
template <> __device__ inline float2 unpack_two<fp16>(uint32_t two)
{
    return __half22float2(reinterpret_cast<const __half2 &>(two));
}

template <typename T> __device__ inline uint32_t pack_two(float a, float b);
template <> __device__ inline uint32_t pack_two<bf16>(float a, float b)
{
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);

    return reinterpret_cast<const uint32_t &>(two);
}
template <> __device__ inline uint32_t pack_two<fp16>(float a, float b)
{
    const __half2 two = __floats2half2_rn(a, b);

    return reinterpret_cast<const uint32_t &>(two);
}

template <typename T, int V> __device__ inline void unpack(const packed<T, V> &in, float *out)
{
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
        for (int i = 0; i < V / 2; i++) {
            const float2 two = unpack_two<T>(in.word[i]);

            out[2 * i] = two.x;
            out[2 * i + 1] = two.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < V; i++)
            out[i] = to_float(in.get(i));
    }
}

template <typename T, int V = VECTOR> __device__ inline packed<T, V> pack(const float *in)
{
    packed<T, V> out;

    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
        for (int i = 0; i < V / 2; i++)
            out.word[i] = pack_two<T>(in[2 * i], in[2 * i + 1]);
    } else {
#pragma unroll
        for (int i = 0; i < V; i++)
            out.set(i, from_float<T>(in[i]));
    }
    return out;
}

/* Whole vectors, aligned. */
template <int V, typename T> __device__ inline packed<T, V> load_whole(const T *p)
{
    return *reinterpret_cast<const packed<T, V> *>(p);
}

template <int V, typename T> __device__ inline void store_whole(T *p, const float *in)
{
    *reinterpret_cast<packed<T, V> *>(p) = pack<T, V>(in);
}

/* Load 'count' (up to eight) elements; the rest are 0. 'wide': the address is aligned to 16 bytes
 * (uniform across the kernel), and eight elements are loaded in one or two accesses. */
template <typename T> __device__ inline packed<T> load_packed(const T *p, int64_t count, bool wide)
{
    packed<T> out;

    if (wide && count >= VECTOR) {
        const int4 *from = reinterpret_cast<const int4 *>(p);
        int4 *to = reinterpret_cast<int4 *>(&out);

#pragma unroll
        for (int i = 0; i < (int)(sizeof(out) / sizeof(int4)); i++)
            to[i] = from[i];
        return out;
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        out.set(i, i < count ? p[i] : from_float<T>(0));
    return out;
}

template <typename T>
__device__ inline void store_packed(T *p, const packed<T> &in, int64_t count, bool wide)
{
    if (wide && count >= VECTOR) {
        const int4 *from = reinterpret_cast<const int4 *>(&in);
        int4 *to = reinterpret_cast<int4 *>(p);

#pragma unroll
        for (int i = 0; i < (int)(sizeof(in) / sizeof(int4)); i++)
            to[i] = from[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        if (i < count)
            p[i] = in.get(i);
}

template <typename T>
__device__ inline void load_vector(const T *p, float *out, int64_t count, bool wide)
{
    unpack(load_packed(p, count, wide), out);
}

template <typename T>
__device__ inline void store_vector(T *p, const float *in, int64_t count, bool wide)
{
    store_packed(p, pack<T>(in), count, wide);
}

/* The same with a compile-time choice: WIDE means that all rows are aligned and consist of whole
 * vectors, so that 'count' only tells whether there is one. */
template <bool WIDE, typename T> __device__ inline packed<T> load_part(const T *p, int64_t count)
{
    if constexpr (!WIDE)
        return load_packed(p, count, false);
    packed<T> out = {};

    if (count > 0)
        out = load_whole<VECTOR>(p);
    return out;
}

template <bool WIDE, typename T>
__device__ inline void store_part(T *p, const packed<T> &in, int64_t count)
{
    if constexpr (!WIDE)
        store_packed(p, in, count, false);
    else if (count > 0)
        *reinterpret_cast<packed<T> *>(p) = in;
}

constexpr float LOG2_E = 1.4426950408889634f; /* exp(x) = 2 ** (x * LOG2_E) */

/* 2 ** x; 0 for minus infinity and for results below the smallest normal number. */
__device__ inline float power_of_two(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

__device__ inline double warp_sum(double x)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

__device__ inline float warp_max(float x)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
    return x;
}

/* Barrier number 'id' (1 to 15) for 'threads' threads of the block. */
__device__ inline void group_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Asynchronous copies to shared memory, in groups that are waited for in order. */
template <int BYTES> __device__ inline void copy_async(void *to, const void *from)
{
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);

    /* "memory": this thread's earlier reads from there must be done first. */
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    if (BYTES == 32)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address + 16),
                     "l"((const char *)from + 16)
                     : "memory");
}

__device__ inline void copy_commit(void)
{
    asm volatile("cp.async.commit_group;");
}

/* Wait until at most PENDING groups of this thread are in flight. */
template <int PENDING> __device__ inline void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Kernels of one operation follow each other closely: if the GPU supports programmatic dependent
 * launch, the blocks of the next kernel are scheduled while the previous one still runs. Kernels
 * launched with launch_early call wait_for_previous in all of their threads before they touch
 * memory; it waits until all earlier work is done. Kernels that precede such a kernel may call
 * let_next_start at any time. Code compiled for Hopper runs only there, so can_launch_early agrees
 * with it. */
__device__ inline void wait_for_previous(void)
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

__device__ inline void let_next_start(void)
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Host side ------------------------------------------------------------------------------------ */

static inline bool is_wide(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

static inline int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Number of multiprocessors of the GPU. Each rank has one GPU. */
static inline int processor_count(void)
{
    static int count;
    int device = 0;

    if (count == 0 && cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count > 0 ? count : 1;
}

/* Add up the column sums of blocks, in block order: out[s][c] (+)= sum over b of partial[(b * sums
 * + s) * cols + c], for s < sums whose 'out' is not NULL. */
struct totals {
    float *out[3];
};
extern "C" void kernel_add_shares(cudaStream_t stream, const float *partial, totals t, int sums,
                                  int blocks, int64_t cols, int accumulate);

/* Can a block on this GPU have this much shared memory? Each rank has one GPU. */
static inline bool shared_fits(size_t bytes)
{
    static int most;
    int device = 0;

    if (most == 0 && cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes + 1024 <= (size_t)most; /* 1024: reserved for the kernel's other shared memory */
}

/* Capturing such launches in a graph needs CUDA 12.3 in the toolkit and in the driver. Each rank
 * has one GPU. */
static inline bool can_launch_early(void)
{
    static int major, driver;
    int device = 0;

    if (major == 0 && cudaGetDevice(&device) == cudaSuccess) {
        cudaDriverGetVersion(&driver);
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    }
    return CUDART_VERSION >= 12030 && driver >= 12030 && major >= 9;
}

/* Launch a kernel that calls wait_for_previous. */
template <typename... P, typename... A>
static inline void launch_early(cudaStream_t stream, int64_t blocks, int threads,
                                void (*kernel)(P...), A... with)
{
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t config = {};

    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = can_launch_early();
    cudaLaunchKernelEx(&config, kernel, P(with)...);
}

/* Call f with a null pointer of the element type: f(bf16 *) and so on. */
#define WITH_TYPE(type, call) \
    do {                      \
        switch (type) {       \
        case TYPE_BF16: {     \
            typedef bf16 T;   \
            call;             \
            break;            \
        }                     \
        case TYPE_FP16: {     \
            typedef fp16 T;   \
            call;             \
            break;            \
        }                     \
        default: {            \
            typedef float T;  \
            call;             \
            break;            \
        }                     \
        }                     \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints: reduce large results to a few numbers, to compare two of them. */
#include "common.cuh"
#include "base/core/rng.h"

namespace
{

constexpr int THREADS = 256;
constexpr int MOST_BLOCKS = 1024;
constexpr int SIGNED_SUMS = FINGERPRINT - 1;
constexpr uint64_t SEED = 2; /* different from that of kernel_noise */

static_assert(SIGNED_SUMS * VECTOR <= 32, "a word has the signs of a vector");

/* partial (blocks, FINGERPRINT) */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    fingerprint(const T *x, int64_t count, double *partial, bool wide)
{
    __shared__ double shared[THREADS / WARP][FINGERPRINT];
    const int64_t stride = (int64_t)gridDim.x * THREADS * VECTOR;
    double sums[FINGERPRINT] = {0};

    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR; i < count;
         i += stride) {
        const uint32_t signs = rng_philox(SEED, (uint64_t)i / VECTOR, RNG_TEST, 0).word[0];
        float v[VECTOR], now[FINGERPRINT] = {0};

        load_vector(x + i, v, count - i, wide);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
#pragma unroll
            for (int s = 0; s < SIGNED_SUMS; s++)
                now[s] += signs >> (k * SIGNED_SUMS + s) & 1 ? -v[k] : v[k];
            now[SIGNED_SUMS] += v[k] * v[k];
        }
#pragma unroll
        for (int s = 0; s < FINGERPRINT; s++)
            sums[s] += now[s];
    }
#pragma unroll
    for (int s = 0; s < FINGERPRINT; s++) {
        sums[s] = warp_sum(sums[s]);
        if (threadIdx.x % WARP == 0)
            shared[threadIdx.x / WARP][s] = sums[s];
    }
    __syncthreads();
    if (threadIdx.x < FINGERPRINT) {
        double total = 0;

        for (int w = 0; w < THREADS / WARP; w++)
            total += shared[w][threadIdx.x];
        partial[blockIdx.x * FINGERPRINT + threadIdx.x] = total;
    }
}

/* One warp per number. */
__global__ void add_fingerprints(const double *partial, int blocks, double *out)
{
    const int s = threadIdx.x / WARP;
    double total = 0;

    for (int b = threadIdx.x % WARP; b < blocks; b += WARP)
        total += partial[b * FINGERPRINT + s];
    total = warp_sum(total);
    if (threadIdx.x % WARP == 0)
        out[s] = total;
}

} // namespace

extern "C" void kernel_fingerprint(cudaStream_t stream, enum device_type type, int64_t count,
                                   const void *x, double *out, double *workspace)
{
    const int blocks = (int)smaller(divide_up(count, THREADS * VECTOR), MOST_BLOCKS);

    WITH_TYPE(type, (fingerprint<<<blocks, THREADS, 0, stream>>>((const T *)x, count, workspace,
                                                                 is_wide(x))));
    add_fingerprints<<<1, FINGERPRINT * WARP, 0, stream>>>(workspace, blocks, out);
}

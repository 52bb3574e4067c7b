/* SPDX-License-Identifier: Apache-2.0 */
/* The sort of runtime/engine/device/cuda/runs.cuh against CUB's radix sort, on the rows of an embedding's gradient: both
 * give the rows in the order of their token and where each token's rows start. Checks that they agree, then prints
 * the time of both in microseconds.
 *
 * usage: sort      exit code 1 if they differ */
#include "engine/device/cuda/kernels.h"
#include "engine/device/cuda/runs.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cub/device/device_radix_sort.cuh>
#include <vector>

static void check(cudaError_t status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(1);
    }
}

static void *allocate(size_t bytes)
{
    void *memory;

    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
}

/* --- CUB ------------------------------------------------------------------------------------- */

/* Rows of other tables get the largest key and come last. */
__global__ void make_keys(const int32_t *index, int64_t first, int64_t table_rows, int rows, uint32_t *keys,
                          int32_t *values)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i < rows) {
        const int64_t at = index[i] - first;

        keys[i] = (uint32_t)(at >= 0 && at < table_rows ? at : table_rows);
        values[i] = i;
    }
}

__global__ void find_starts(const uint32_t *keys, int rows, int64_t table_rows, uint32_t *starts)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i > rows)
        return;
    const int64_t begin = i == 0 ? 0 : (int64_t)keys[i - 1] + 1;
    const int64_t end = i == rows ? table_rows + 1 : (int64_t)keys[i] + 1;

    for (int64_t key = begin; key < end; key++)
        starts[key] = (uint32_t)i;
}

struct by_cub {
    uint32_t *keys[2], *starts;
    int32_t *values[2];
    void *space;
    size_t bytes;
    int bits;
};

static by_cub cub_create(int rows, int64_t table_rows)
{
    by_cub c = {};

    for (int i = 0; i < 2; i++) {
        c.keys[i] = (uint32_t *)allocate(rows * sizeof(uint32_t));
        c.values[i] = (int32_t *)allocate(rows * sizeof(int32_t));
    }
    c.starts = (uint32_t *)allocate((table_rows + 2) * sizeof(uint32_t));
    while (table_rows >> c.bits)
        c.bits++;
    cub::DeviceRadixSort::SortPairs(nullptr, c.bytes, c.keys[0], c.keys[1], c.values[0], c.values[1], rows, 0, c.bits);
    c.space = allocate(c.bytes);
    return c;
}

static void cub_run(by_cub &c, cudaStream_t stream, const embedding_shape &s, const int32_t *index)
{
    const int rows = (int)s.rows, blocks = rows / 256 + 1;

    make_keys<<<blocks, 256, 0, stream>>>(index, s.first, s.table_rows, rows, c.keys[0], c.values[0]);
    cub::DeviceRadixSort::SortPairs(c.space, c.bytes, c.keys[0], c.keys[1], c.values[0], c.values[1], rows, 0, c.bits,
                                    stream);
    find_starts<<<blocks, 256, 0, stream>>>(c.keys[1], rows, s.table_rows, c.starts);
}

static void cub_destroy(by_cub &c)
{
    for (int i = 0; i < 2; i++) {
        cudaFree(c.keys[i]);
        cudaFree(c.values[i]);
    }
    cudaFree(c.starts);
    cudaFree(c.space);
}

/* --- Both ------------------------------------------------------------------------------------ */

template <typename T> static std::vector<T> fetch(const void *memory, size_t count)
{
    std::vector<T> out(count);

    check(cudaMemcpy(out.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost), "copy");
    return out;
}

/* For each token: the same rows in the same order. */
static bool same(const run_table &runs, const by_cub &c, const embedding_shape &s)
{
    const run_layout l = plan_runs(s.rows, s.table_rows);
    const auto first = fetch<uint32_t>(runs.first, (size_t)(l.buckets << l.bits) + 1);
    const auto sorted = fetch<entry>(runs.sorted, (size_t)s.rows);
    const auto starts = fetch<uint32_t>(c.starts, (size_t)s.table_rows + 1);
    const auto values = fetch<int32_t>(c.values[1], (size_t)s.rows);

    for (int64_t at = 0; at < s.table_rows; at++) {
        const uint32_t key = (uint32_t)(at & (DIGITS - 1)) << l.bits | (uint32_t)(at >> DIGIT_BITS);
        const uint32_t count = starts[at + 1] - starts[at];

        if (first[key + 1] - first[key] != count)
            return false;
        for (uint32_t i = 0; i < count; i++)
            if (sorted[first[key] + i].row != values[starts[at] + i])
                return false;
    }
    return true;
}

template <typename F> static double microseconds(cudaStream_t stream, F run)
{
    const int repeats = 200;
    std::vector<float> times;
    cudaEvent_t from, to;

    cudaEventCreate(&from), cudaEventCreate(&to);
    for (int round = 0; round < 7; round++) {
        float milliseconds;

        cudaEventRecord(from, stream);
        for (int i = 0; i < repeats; i++)
            run();
        cudaEventRecord(to, stream);
        check(cudaEventSynchronize(to), "run");
        cudaEventElapsedTime(&milliseconds, from, to);
        times.push_back(milliseconds);
    }
    cudaEventDestroy(from), cudaEventDestroy(to);
    std::sort(times.begin(), times.end());
    return 1e3 * times[times.size() / 2] / repeats;
}

/* Tokens as in a text (the n-th has a share of 1/n), or all alike. */
static std::vector<int32_t> tokens(int64_t rows, int64_t vocabulary, bool text)
{
    std::vector<int32_t> out((size_t)rows);
    uint64_t state = 12345;

    for (auto &token : out) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double u = (double)(state >> 11) / 9007199254740992.0;

        token = (int32_t)(text ? std::pow((double)vocabulary, u) - 1 : u * (double)vocabulary);
    }
    return out;
}

static bool measure(cudaStream_t stream, int64_t rows, int64_t vocabulary, int tp, bool text)
{
    embedding_shape s = {};
    const auto list = tokens(rows, vocabulary, text);
    int32_t *const index = (int32_t *)allocate(rows * sizeof(int32_t));

    s.rows = rows;
    s.table_rows = vocabulary / tp;
    s.first = 0;
    check(cudaMemcpy(index, list.data(), rows * sizeof(int32_t), cudaMemcpyHostToDevice), "copy");
    void *const workspace = allocate(plan_runs(s.rows, s.table_rows).total);
    by_cub c = cub_create((int)rows, s.table_rows);
    const run_table runs = find_runs(stream, &s, index, workspace);
    cub_run(c, stream, s, index);
    check(cudaStreamSynchronize(stream), "run");
    const bool good = same(runs, c, s);
    const double own = microseconds(stream, [&] { find_runs(stream, &s, index, workspace); });
    const double cub = microseconds(stream, [&] { cub_run(c, stream, s, index); });

    printf("%8lld rows, %6lld of %6lld tokens, %-7s  runs.cuh %7.1f us   CUB %7.1f us   %.2f times%s\n",
           (long long)rows, (long long)s.table_rows, (long long)vocabulary, text ? "a text" : "uniform", own, cub,
           cub / own, good ? "" : "   DIFFERENT");
    cub_destroy(c);
    cudaFree(workspace);
    cudaFree(index);
    return good;
}

int main()
{
    cudaStream_t stream;
    bool good = true;

    check(cudaStreamCreate(&stream), "stream");
    for (int64_t rows : {4096, 16384, 65536, 262144})
        for (int64_t vocabulary : {50304, 128256})
            for (int tp : {1, 8})
                for (bool text : {true, false})
                    good &= measure(stream, rows, vocabulary, tp, text);
    return good ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of query and key heads within packed projections, and their gradient. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 256, WARPS = THREADS / WARP;

/* A row and its vectors: queries first, then keys. */
struct geometry {
    int64_t rows, counts[2], widths[2], rest;
    float epsilon, one; /* one: is added to weights */
    bool layer;

    explicit geometry(const head_norm_shape *s)
        : rows(s->rows), counts{s->counts[0], s->counts[1]}, widths{s->widths[0], s->widths[1]},
          rest(s->rest), epsilon((float)s->epsilon), one(s->add_one ? 1.0f : 0.0f),
          layer(s->norm == NORM_LAYER)
    {
    }

    __host__ __device__ inline int64_t vectors() const
    {
        return counts[0] + counts[1];
    }

    __host__ __device__ inline int64_t columns() const
    {
        return counts[0] * widths[0] + counts[1] * widths[1] + rest;
    }

    /* First column of a vector. */
    __device__ inline int64_t at(int64_t vector) const
    {
        return vector < counts[0] ? vector * widths[0]
                                  : counts[0] * widths[0] + (vector - counts[0]) * widths[1];
    }
};

/* One warp per vector; the last warps of a row copy the rest. */
template <typename T>
__global__ void __launch_bounds__(THREADS) head_norm(geometry g, head_norm_operands o)
{
    const int64_t warps = g.vectors() + 1;
    const int64_t job = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, row = job / warps;
    const int64_t vector = job % warps, base = row * g.columns();
    const int lane = threadIdx.x % WARP, which = vector < g.counts[0] ? 0 : 1;

    if (row >= g.rows)
        return;
    if (vector == g.vectors()) {
        const int64_t first = base + g.columns() - g.rest;

        for (int64_t c = lane; c < g.rest; c += WARP)
            ((T *)o.y)[first + c] = ((const T *)o.x)[first + c];
        return;
    }
    const T *x = (const T *)o.x + base + g.at(vector);
    T *y = (T *)o.y + base + g.at(vector);
    const T *weight = (const T *)o.weight[which], *bias = (const T *)o.bias[which];
    const int64_t n = g.widths[which];
    float mean = 0, squares = 0;

    if (g.layer) {
        for (int64_t c = lane; c < n; c += WARP)
            mean += to_float(x[c]);
        mean = warp_sum(mean) / (float)n;
    }
    for (int64_t c = lane; c < n; c += WARP) {
        const float apart = to_float(x[c]) - mean;

        squares += apart * apart;
    }
    const float rstd = rsqrtf(warp_sum(squares) / (float)n + g.epsilon);

    for (int64_t c = lane; c < n; c += WARP)
        y[c] = from_float<T>((to_float(x[c]) - mean) * rstd * (to_float(weight[c]) + g.one) +
                             (g.layer ? to_float(bias[c]) : 0.0f));
    if (lane == 0) {
        o.rstd[row * g.vectors() + vector] = rstd;
        if (g.layer)
            o.mean[row * g.vectors() + vector] = mean;
    }
}

/* One thread per channel of queries and keys; blockIdx.y: a part of the rows. partial (parts, 2,
 * widths): of weights, of biases. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    head_norm_sums(geometry g, head_norm_backward_operands o, int64_t rows_per_part, float *partial)
{
    const int64_t channel = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t widths = g.widths[0] + g.widths[1];
    const int64_t first = blockIdx.y * rows_per_part;
    const int64_t last = first + rows_per_part < g.rows ? first + rows_per_part : g.rows;
    float dweight = 0, dbias = 0;

    if (channel >= widths)
        return;
    const int which = channel < g.widths[0] ? 0 : 1;
    const int64_t c = which ? channel - g.widths[0] : channel, before = which ? g.counts[0] : 0;

    for (int64_t row = first; row < last; row++)
        for (int64_t i = 0; i < g.counts[which]; i++) {
            const int64_t vector = before + i, number = row * g.vectors() + vector;
            const int64_t at = row * g.columns() + g.at(vector) + c;
            const float d = to_float(((const T *)o.d)[at]);
            const float mean = g.layer ? o.mean[number] : 0.0f;

            dweight += d * (to_float(((const T *)o.x)[at]) - mean) * o.rstd[number];
            dbias += d;
        }
    partial[blockIdx.y * 2 * widths + channel] = dweight;
    partial[blockIdx.y * 2 * widths + widths + channel] = dbias;
}

__global__ void add_parts(geometry g, head_norm_backward_operands o, const float *partial,
                          int64_t parts)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t widths = g.widths[0] + g.widths[1], channel = i % widths;
    const int which = channel < g.widths[0] ? 0 : 1;
    float *out = i < widths ? o.dweight[which] : o.dbias[which];
    float sum = 0;

    if (i >= (g.layer ? 2 : 1) * widths)
        return;
    for (int64_t p = 0; p < parts; p++)
        sum += partial[p * 2 * widths + i];
    out += which ? channel - g.widths[0] : channel;
    *out = o.accumulate ? *out + sum : sum;
}

/* One warp per vector, in place. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    head_norm_backward(geometry g, head_norm_backward_operands o)
{
    const int64_t number = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t row = number / g.vectors(), vector = number % g.vectors();
    const int lane = threadIdx.x % WARP, which = vector < g.counts[0] ? 0 : 1;

    if (row >= g.rows)
        return;
    const int64_t base = row * g.columns() + g.at(vector), n = g.widths[which];
    const T *x = (const T *)o.x + base, *weight = (const T *)o.weight[which];
    T *d = (T *)o.d + base;
    const float rstd = o.rstd[number], mean = g.layer ? o.mean[number] : 0.0f;
    float sum = 0, sum_x = 0;

    for (int64_t c = lane; c < n; c += WARP) {
        const float share = to_float(d[c]) * (to_float(weight[c]) + g.one);

        sum += share;
        sum_x += share * (to_float(x[c]) - mean) * rstd;
    }
    sum = g.layer ? warp_sum(sum) / (float)n : 0.0f;
    sum_x = warp_sum(sum_x) / (float)n;
    for (int64_t c = lane; c < n; c += WARP) {
        const float normal = (to_float(x[c]) - mean) * rstd;

        d[c] = from_float<T>(
            (to_float(d[c]) * (to_float(weight[c]) + g.one) - sum - normal * sum_x) * rstd);
    }
}

int64_t parts_of(const head_norm_shape *s)
{
    return smaller(s->rows, (int64_t)processor_count() * 4);
}

} // namespace

extern "C" void kernel_head_norm(cudaStream_t stream, const head_norm_shape *s,
                                 const head_norm_operands *o)
{
    const geometry g(s);
    const unsigned blocks = (unsigned)divide_up(s->rows * (g.vectors() + 1), WARPS);

    if (s->rows > 0)
        WITH_TYPE(s->type, (head_norm<T><<<blocks, THREADS, 0, stream>>>(g, *o)));
}

extern "C" size_t kernel_head_norm_backward_workspace(const head_norm_shape *s)
{
    return (size_t)(parts_of(s) * 2 * (s->widths[0] + s->widths[1])) * sizeof(float);
}

extern "C" void kernel_head_norm_backward(cudaStream_t stream, const head_norm_shape *s,
                                          const head_norm_backward_operands *o, void *workspace)
{
    const geometry g(s);
    float *partial = (float *)workspace;
    const int64_t widths = s->widths[0] + s->widths[1], parts = parts_of(s);
    const int64_t rows = parts > 0 ? divide_up(s->rows, parts) : 0;
    const dim3 grid((unsigned)divide_up(widths, THREADS), (unsigned)parts);
    const unsigned blocks = (unsigned)divide_up(s->rows * g.vectors(), WARPS);

    /* The sums need the gradients that the last kernel overwrites. */
    if (parts > 0)
        WITH_TYPE(s->type, (head_norm_sums<T><<<grid, THREADS, 0, stream>>>(g, *o, rows, partial)));
    add_parts<<<(unsigned)divide_up(2 * widths, THREADS), THREADS, 0, stream>>>(g, *o, partial,
                                                                                parts);
    if (parts > 0)
        WITH_TYPE(s->type, (head_norm_backward<T><<<blocks, THREADS, 0, stream>>>(g, *o)));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise parts of Muon; its products are linear operations. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS)
    momentum(muon_operands o, int64_t count, float beta, float rest, bool nesterov)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (o.state->skip || i >= count)
        return;
    const float g = o.x[i] * o.state->grad_factor, m = o.moment[i] + rest * (g - o.moment[i]);

    o.moment[i] = m;
    o.x[i] = nesterov ? g + beta * (m - g) : m;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) normalize(muon_operands o, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < count)
        ((T *)o.y)[i] = from_float<T>(o.x[i] * (float)(1 / fmax(sqrt(*o.square_sum), 1e-7)));
}

template <typename T>
__global__ void __launch_bounds__(THREADS) update(muon_operands o, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (o.state->skip || i >= count)
        return;
    const float lr = o.state->lr;
    const float p = o.master[i] * (1.0f - lr * o.state->weight_decay) - lr * o.x[i];

    o.master[i] = p;
    if (o.weights)
        ((T *)o.weights)[i] = from_float<T>(p);
}

} // namespace

extern "C" void kernel_muon(cudaStream_t stream, const muon_shape *s, const muon_operands *o)
{
    const unsigned blocks = (unsigned)divide_up(s->count, THREADS);

    if (s->count == 0)
        return;
    switch (s->part) {
    case MUON_MOMENTUM:
        momentum<<<blocks, THREADS, 0, stream>>>(*o, s->count, (float)s->momentum,
                                                 (float)(1 - s->momentum), s->nesterov != 0);
        break;
    case MUON_NORMALIZE:
        WITH_TYPE(s->type, (normalize<T><<<blocks, THREADS, 0, stream>>>(*o, s->count)));
        break;
    case MUON_UPDATE:
        WITH_TYPE(s->type, (update<T><<<blocks, THREADS, 0, stream>>>(*o, s->count)));
        break;
    }
}

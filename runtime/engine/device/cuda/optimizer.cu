/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer on flat arenas, the norm of the gradients, and the state of the step. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int FLOATS = 4;
constexpr int SUM_BLOCKS = 1056; /* fixed: the order of the sum depends only on the count */

struct adam_constants {
    float beta1, beta2, epsilon;   /* the plan's */
    float lr, decay, factor;       /* learning rate of this step */
    float inverse1, inverse_root2; /* bias corrections of the moments */
};

__device__ inline float update(const adam_constants &k, float g, float &p, float &m, float &v,
                               float decay)
{
    g *= k.factor;
    m = k.beta1 * m + (1.0f - k.beta1) * g;
    v = k.beta2 * v + (1.0f - k.beta2) * g * g;
    const float step = __fdividef(m * k.inverse1, __fsqrt_rn(v) * k.inverse_root2 + k.epsilon);
    p -= k.lr * (step + decay * p);
    return p;
}

template <typename T> __device__ inline float4 load_four(const T *from)
{
    const packed<T, FLOATS> x = load_whole<FLOATS>(from);

    return make_float4(to_float(x.get(0)), to_float(x.get(1)), to_float(x.get(2)),
                       to_float(x.get(3)));
}

/* Four gradients that are not read again. */
__device__ inline float4 load_gradients(const float *from)
{
    return __ldcs((const float4 *)from);
}

__device__ inline float4 load_gradients(const bf16 *from)
{
    const uint2 x = __ldcs((const uint2 *)from);

    return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u),
                       __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xffff0000u));
}

/* Where the moments are: in bf16 if 'narrow', which the compiler knows to be false without NARROW.
 */
template <bool NARROW> struct moments {
    void *all;
    bool narrow;

    __device__ inline bool is_narrow(void) const
    {
        return NARROW && narrow;
    }

    __device__ inline float4 load_four(int64_t i) const
    {
        return is_narrow() ? load_gradients((const bf16 *)all + i)
                           : __ldcs((const float4 *)((const float *)all + i));
    }

    __device__ inline void store_four(int64_t i, float4 m) const
    {
        const float four[FLOATS] = {m.x, m.y, m.z, m.w};

        if (is_narrow())
            store_whole<FLOATS>((bf16 *)all + i, four);
        else
            __stcs((float4 *)((float *)all + i), m);
    }

    __device__ inline float load(int64_t i) const
    {
        return is_narrow() ? to_float(((const bf16 *)all)[i]) : ((const float *)all)[i];
    }

    __device__ inline void store(int64_t i, float m) const
    {
        if (is_narrow())
            ((bf16 *)all)[i] = from_float<bf16>(m);
        else
            ((float *)all)[i] = m;
    }
};

/* T: the type of the weights, G: that of the gradients. NARROW: are moments in bf16? */
template <typename T, typename G, bool NARROW>
__global__ void __launch_bounds__(THREADS)
    adam(adam_operands o, moments<NARROW> moment1, moments<NARROW> moment2, int64_t count,
         int64_t decayed, float beta1, float beta2, float epsilon, bool wide, bool decoupled)
{
    const step_state &state = *o.state;
    T *weights = (T *)o.weights;
    const G *const grad = (const G *)o.grad;
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * FLOATS;

    if (state.skip || i >= count)
        return;
    const adam_constants k = {beta1,
                              beta2,
                              epsilon,
                              decoupled ? state.decoupled_lr : state.lr,
                              state.weight_decay,
                              state.grad_factor,
                              1.0f / state.correction1,
                              rsqrtf(state.correction2)};

    if (wide && i + FLOATS <= count) {
        float4 g = load_gradients(grad + i);
        float4 p = o.master ? __ldcs((const float4 *)(o.master + i)) : load_four(weights + i);
        float4 m = moment1.load_four(i);
        float4 v = moment2.load_four(i);

        update(k, g.x, p.x, m.x, v.x, i < decayed ? k.decay : 0.0f);
        update(k, g.y, p.y, m.y, v.y, i + 1 < decayed ? k.decay : 0.0f);
        update(k, g.z, p.z, m.z, v.z, i + 2 < decayed ? k.decay : 0.0f);
        update(k, g.w, p.w, m.w, v.w, i + 3 < decayed ? k.decay : 0.0f);
        if (o.master)
            __stcs((float4 *)(o.master + i), p);
        moment1.store_four(i, m);
        moment2.store_four(i, v);
        if (weights) {
            const float four[FLOATS] = {p.x, p.y, p.z, p.w};

            store_whole<FLOATS>(weights + i, four);
        }
        return;
    }
    for (int64_t j = i; j < i + FLOATS && j < count; j++) {
        float p = o.master ? o.master[j] : to_float(weights[j]);
        float m = moment1.load(j), v = moment2.load(j);

        update(k, to_float(grad[j]), p, m, v, j < decayed ? k.decay : 0.0f);
        moment1.store(j, m);
        moment2.store(j, v);
        if (o.master)
            o.master[j] = p;
        if (weights)
            weights[j] = from_float<T>(p);
    }
}

template <typename T, typename G>
__global__ void __launch_bounds__(THREADS)
    sgd(adam_operands o, int64_t count, int64_t decayed, float momentum, bool decoupled)
{
    const step_state &state = *o.state;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (state.skip || i >= count)
        return;
    const float lr = decoupled ? state.decoupled_lr : state.lr;
    const float g = to_float(((const G *)o.grad)[i]) * state.grad_factor +
                    (i < decayed ? state.weight_decay * o.master[i] : 0.0f);
    float *const moment = (float *)o.moment1;
    const float m = momentum * moment[i] + g, p = o.master[i] - lr * m;

    moment[i] = m;
    o.master[i] = p;
    if (o.weights)
        ((T *)o.weights)[i] = from_float<T>(p);
}

__device__ inline double block_sum(double x)
{
    __shared__ double shared[WARP];

    x = warp_sum(x);
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < (int)blockDim.x / WARP; w++)
            x += shared[w];
    return x;
}

__device__ inline float4 load_for_sum(const float *from)
{
    return *(const float4 *)from;
}

__device__ inline float4 load_for_sum(const bf16 *from)
{
    return load_four(from);
}

template <typename G>
__global__ void __launch_bounds__(THREADS)
    square_sum(const G *x, int64_t count, double *partial, bool wide)
{
    const int64_t stride = (int64_t)gridDim.x * THREADS * FLOATS;
    double sum = 0;
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * FLOATS;

    for (; wide && i + 3 * stride + FLOATS <= count; i += 4 * stride) {
        float4 v[4];

#pragma unroll
        for (int k = 0; k < 4; k++)
            v[k] = load_for_sum(x + i + k * stride);
#pragma unroll
        for (int k = 0; k < 4; k++)
            sum += (double)v[k].x * v[k].x + (double)v[k].y * v[k].y + (double)v[k].z * v[k].z +
                   (double)v[k].w * v[k].w;
    }
    for (; i < count; i += stride)
        for (int64_t j = i; j < i + FLOATS && j < count; j++)
            sum += (double)to_float(x[j]) * to_float(x[j]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void add_square_sums(const double *partial, int blocks, double *out)
{
    double sum = 0;

    for (int i = threadIdx.x; i < blocks; i += blockDim.x)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *out += sum;
}

__global__ void step(step_state *state, step_rules rules, enum step_phase phase)
{
    switch (phase) {
    case STEP_BEGIN:
        step_begin(state);
        break;
    case STEP_CLIP:
        step_clip(state, &rules);
        break;
    case STEP_END:
        step_end(state, &rules);
        break;
    case STEP_RESET:
        step_reset(state);
        break;
    }
}

template <typename G, bool NARROW>
void launch_adam(cudaStream_t stream, const adam_shape *s, const adam_operands *o, bool wide)
{
    const moments<NARROW> first = {o->moment1, s->moment1 == TYPE_BF16};
    const moments<NARROW> second = {o->moment2, s->moment2 == TYPE_BF16};
    const unsigned blocks = (unsigned)divide_up(s->count, THREADS * FLOATS);

    WITH_TYPE(s->type, (adam<T, G, NARROW><<<blocks, THREADS, 0, stream>>>(
                           *o, first, second, s->count, s->decayed, (float)s->beta1,
                           (float)s->beta2, (float)s->epsilon, wide, s->decoupled != 0)));
}

template <typename G>
void update_weights(cudaStream_t stream, const adam_shape *s, const adam_operands *o)
{
    const bool wide = is_wide(o->grad) && is_wide(o->master) && is_wide(o->moment1) &&
                      is_wide(o->moment2) && is_wide(o->weights);

    if (s->count == 0)
        return;
    if (s->kind == OPTIMIZER_SGD)
        WITH_TYPE(s->type,
                  (sgd<T, G><<<(unsigned)divide_up(s->count, THREADS), THREADS, 0, stream>>>(
                      *o, s->count, s->decayed, (float)s->beta1, s->decoupled != 0)));
    else if (s->moment1 == TYPE_FP32 && s->moment2 == TYPE_FP32)
        launch_adam<G, false>(stream, s, o, wide);
    else
        launch_adam<G, true>(stream, s, o, wide);
}

} // namespace

extern "C" void kernel_adam(cudaStream_t stream, const adam_shape *s, const adam_operands *o)
{
    if (s->gradient == TYPE_BF16)
        update_weights<bf16>(stream, s, o);
    else
        update_weights<float>(stream, s, o);
}

extern "C" size_t kernel_square_sum_workspace(const square_sum_shape *)
{
    return SUM_BLOCKS * sizeof(double);
}

extern "C" void kernel_square_sum(cudaStream_t stream, const square_sum_shape *s,
                                  const square_sum_operands *o, void *workspace)
{
    const int blocks = (int)smaller(divide_up(s->count, THREADS * FLOATS), SUM_BLOCKS);

    if (s->count == 0)
        return;
    if (s->type == TYPE_BF16)
        square_sum<<<blocks, THREADS, 0, stream>>>((const bf16 *)o->x, s->count,
                                                   (double *)workspace, is_wide(o->x));
    else
        square_sum<<<blocks, THREADS, 0, stream>>>((const float *)o->x, s->count,
                                                   (double *)workspace, is_wide(o->x));
    add_square_sums<<<1, 1024, 0, stream>>>((const double *)workspace, blocks, o->sum);
}

extern "C" void kernel_step(cudaStream_t stream, const step_shape *s, const step_operands *o)
{
    step<<<1, 1, 0, stream>>>(o->state, s->rules, s->phase);
}

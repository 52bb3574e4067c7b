/* SPDX-License-Identifier: Apache-2.0 */
/* Activations and gated activations (SwiGLU and its relatives), with their gradients. */
#include "gate.cuh"
#include "pointwise.cuh"

namespace
{

/* Start with what the product before has written last, and end with what the product after reads
 * first: both are still in the cache. */
__device__ inline unsigned block_from_end(void)
{
    return gridDim.x - 1 - blockIdx.x;
}

template <typename T, activation ACTIVATION>
__global__ void activation_kernel(const T *x, T *y, int64_t count, bool wide)
{
    const int64_t i = ((int64_t)block_from_end() * THREADS + threadIdx.x) * VECTOR;
    float v[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, v, count - i, wide);
    if (ACTIVATION == ACTIVATION_GELU_TANH)
        gelu_tanh<VECTOR>(v);
    else if (ACTIVATION == ACTIVATION_GELU_ERF)
        gelu_erf<VECTOR, sizeof(T) == 4>(v);
    else if (ACTIVATION == ACTIVATION_SQUARED_RELU)
        squared_relu<VECTOR>(v);
    else
        tanh_forward<VECTOR>(v);
    store_vector(y + i, v, count - i, wide);
}

template <typename T, activation ACTIVATION>
__global__ void activation_backward_kernel(const T *x, const T *dy, T *y, int64_t count, bool wide)
{
    const int64_t i = ((int64_t)block_from_end() * THREADS + threadIdx.x) * VECTOR;
    float before[VECTOR], v[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, before, count - i, wide);
    load_vector(dy + i, v, count - i, wide);
    if (ACTIVATION == ACTIVATION_GELU_TANH)
        gelu_tanh_gradient<VECTOR>(before, v);
    else if (ACTIVATION == ACTIVATION_GELU_ERF)
        gelu_erf_gradient<VECTOR, sizeof(T) == 4>(before, v);
    else if (ACTIVATION == ACTIVATION_SQUARED_RELU)
        squared_relu_gradient<VECTOR>(before, v);
    else
        tanh_gradient<VECTOR>(before, v);
    store_vector(y + i, v, count - i, wide);
}

template <typename T, gate GATE>
__global__ void __launch_bounds__(ROW_THREADS) swiglu(const T *x, T *y, int64_t cols, bool wide)
{
    constexpr int TOGETHER = 2;
    const int64_t walk = (int64_t)blockDim.x * VECTOR;

    x += 2 * cols * block_from_end();
    y += cols * block_from_end();
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += TOGETHER * walk) {
        packed<T> gates[TOGETHER], ups[TOGETHER];

#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            gates[i] = load_packed(x + c + i * walk, cols - c - i * walk, wide);
            ups[i] = load_packed(x + cols + c + i * walk, cols - c - i * walk, wide);
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            float gate[VECTOR], up[VECTOR];

            unpack(gates[i], gate);
            unpack(ups[i], up);
            gate_function<GATE, VECTOR>::apply(gate, up);
            store_vector(y + c + i * walk, up, cols - c - i * walk, wide);
        }
    }
}

template <typename T, gate GATE>
__global__ void __launch_bounds__(ROW_THREADS)
    swiglu_backward(const T *dy, const T *x, T *dx, int64_t cols, bool wide)
{
    dy += cols * block_from_end();
    x += 2 * cols * block_from_end();
    dx += 2 * cols * block_from_end();
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += (int64_t)blockDim.x * VECTOR) {
        const int64_t count = cols - c;
        float gate[VECTOR], up[VECTOR], d[VECTOR];

        load_vector(x + c, gate, count, wide);
        load_vector(x + cols + c, up, count, wide);
        load_vector(dy + c, d, count, wide);
        gate_function<GATE, VECTOR>::differentiate(gate, up, d);
        store_vector(dx + c, gate, count, wide);
        store_vector(dx + cols + c, up, count, wide);
    }
}

} // namespace

extern "C" void kernel_activation(cudaStream_t stream, const activation_shape *s,
                                  const activation_operands *o)
{
    const unsigned blocks = blocks_for(divide_up(s->count, VECTOR));
    const void *from = s->backward ? o->dy : o->x;
    const bool wide = is_wide(o->x) && is_wide(o->y) && is_wide(from);

#define ACTIVATE(kind)                                                                           \
    if (s->backward)                                                                             \
        WITH_TYPE(s->type, (activation_backward_kernel<T, kind><<<blocks, THREADS, 0, stream>>>( \
                               (const T *)o->x, (const T *)o->dy, (T *)o->y, s->count, wide)));  \
    else                                                                                         \
        WITH_TYPE(s->type, (activation_kernel<T, kind><<<blocks, THREADS, 0, stream>>>(          \
                               (const T *)o->x, (T *)o->y, s->count, wide)));                    \
    break
    switch (s->activation) {
    case ACTIVATION_NONE:
        if (from != o->y)
            cudaMemcpyAsync(o->y, from, (size_t)s->count * type_size(s->type),
                            cudaMemcpyDeviceToDevice, stream);
        break;
    case ACTIVATION_GELU_TANH:
        ACTIVATE(ACTIVATION_GELU_TANH);
    case ACTIVATION_GELU_ERF:
        ACTIVATE(ACTIVATION_GELU_ERF);
    case ACTIVATION_SQUARED_RELU:
        ACTIVATE(ACTIVATION_SQUARED_RELU);
    default:
        ACTIVATE(ACTIVATION_TANH);
    }
#undef ACTIVATE
}

extern "C" void kernel_swiglu(cudaStream_t stream, const swiglu_shape *s, const swiglu_operands *o)
{
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->x) && is_wide(o->y);

#define GATED(kind)                                                                              \
    WITH_TYPE(s->type, (swiglu<T, kind><<<(unsigned)s->rows, row_threads(s->cols), 0, stream>>>( \
                           (const T *)o->x, (T *)o->y, s->cols, wide)))
    if (s->gate == GATE_SILU)
        GATED(GATE_SILU);
    else if (s->gate == GATE_GELU_TANH)
        GATED(GATE_GELU_TANH);
    else
        GATED(GATE_QUICK_GELU);
#undef GATED
}

extern "C" void kernel_swiglu_backward(cudaStream_t stream, const swiglu_shape *s,
                                       const swiglu_backward_operands *o)
{
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->x) && is_wide(o->dx) && is_wide(o->dy);

#define GATED(kind)                                                                              \
    WITH_TYPE(s->type,                                                                           \
              (swiglu_backward<T, kind><<<(unsigned)s->rows, row_threads(s->cols), 0, stream>>>( \
                  (const T *)o->dy, (const T *)o->x, (T *)o->dx, s->cols, wide)))
    if (s->gate == GATE_SILU)
        GATED(GATE_SILU);
    else if (s->gate == GATE_GELU_TANH)
        GATED(GATE_GELU_TANH);
    else
        GATED(GATE_QUICK_GELU);
#undef GATED
}

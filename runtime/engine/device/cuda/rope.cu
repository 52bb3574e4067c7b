/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embeddings (RoPE): the rotation of queries and keys, and its inverse. */
#include "pointwise.cuh"

namespace
{

/* A thread rotates eight pairs, channels c.. and c + half.., of every 'step'th head of one row:
 * sine and cosine are loaded once. They are loaded last, because they depend on the position: by
 * then the loads of the first heads are in flight. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__(ROW_THREADS, WIDE && sizeof(T) == 2 ? 4 : 2)
    rope(rope_operands o, int heads, int step, int head_size, int half, int64_t row_stride,
         float sign)
{
    constexpr int TOGETHER = 2;
    const int lanes = (int)blockDim.x / step, c0 = (int)blockIdx.y * lanes;
    const int c = (c0 + (int)threadIdx.x % lanes) * VECTOR, count = half - c;
    const int64_t row = blockIdx.x;
    T *const x = (T *)o.x + row * row_stride + c;
    float cosine[VECTOR], sine[VECTOR];
    packed<T> a[TOGETHER], b[TOGETHER];
    int head = (int)threadIdx.x / lanes;

    auto fetch = [&]() {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const T *p = x + (head + i * step) * head_size;
            const int left = head + i * step < heads ? count : 0;

            a[i] = load_part<WIDE>(p, left);
            b[i] = load_part<WIDE>(p + half, left);
        }
    };

    if (count <= 0)
        return;
    const int64_t at = (int64_t)o.positions[row] * half + c;
    fetch();
    unpack(load_part<WIDE>(o.cosine + at, count), cosine);
    unpack(load_part<WIDE>(o.sine + at, count), sine);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        sine[k] *= sign;
    for (;;) {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            T *p = x + (head + i * step) * head_size;
            const int left = head + i * step < heads ? count : 0;
            float u[VECTOR], v[VECTOR];

            unpack(a[i], u);
            unpack(b[i], v);
#pragma unroll
            for (int k = 0; k < VECTOR; k++) {
                const float turned = u[k] * cosine[k] - v[k] * sine[k];

                v[k] = v[k] * cosine[k] + u[k] * sine[k];
                u[k] = turned;
            }
            store_part<WIDE>(p, pack<T>(u), left);
            store_part<WIDE>(p + half, pack<T>(v), left);
        }
        head += TOGETHER * step;
        if (head >= heads)
            break;
        fetch();
    }
}

} // namespace

extern "C" void kernel_rope(cudaStream_t stream, const rope_shape *s, const rope_operands *o)
{
    const int64_t half = s->rotary / 2, vectors = divide_up(half, VECTOR);
    const int64_t lanes = smaller(vectors, ROW_THREADS);
    /* As many heads at a time as fit into the iterations that are needed anyway. */
    const int64_t rounds = divide_up(s->heads * lanes, ROW_THREADS);
    const int step = rounds ? (int)smaller(divide_up(s->heads, rounds), ROW_THREADS / lanes) : 0;
    const dim3 grid((unsigned)s->rows, (unsigned)(lanes ? divide_up(vectors, lanes) : 0));
    const bool wide = is_wide(o->x) && is_wide(o->cosine) && is_wide(o->sine) &&
                      half % VECTOR == 0 && s->head_size % VECTOR == 0 &&
                      s->row_stride % VECTOR == 0;
    const unsigned threads = (unsigned)(step * lanes);
    const float sign = s->backward ? -1.0f : 1.0f;

    if (step == 0)
        return; /* nothing to rotate */
    if (wide)
        WITH_TYPE(s->type,
                  (rope<T, true><<<grid, threads, 0, stream>>>(
                      *o, (int)s->heads, step, (int)s->head_size, (int)half, s->row_stride, sign)));
    else
        WITH_TYPE(s->type,
                  (rope<T, false><<<grid, threads, 0, stream>>>(
                      *o, (int)s->heads, step, (int)s->head_size, (int)half, s->row_stride, sign)));
}

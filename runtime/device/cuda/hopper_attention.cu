/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on Hopper for head size 64: one kernel forward and two for the gradient.
 *
 * The gradient's first kernel iterates over the keys for a tile of queries and keeps dQ in
 * registers; the second one iterates over the queries for a tile of keys and keeps dK and dV in
 * registers. Both compute the scores, so there are seven products instead of the five of a single
 * kernel. With heads this small, however, the products are the smaller part of the time, and
 * nothing is accumulated in memory: there is no fp32 copy of dQ to clear, to add to atomically and
 * to convert, and results are bit-identical in every run. */
#include "hopper_attention.cuh"

namespace
{

/* Describe the rows of one head after the other, copied 'rows' at a time. */
bool describe(CUtensorMap *map, cudnnDataType_t type, const void *tensor,
              struct flash_strides strides, int64_t positions, int64_t heads, int64_t batch,
              int rows)
{
    const cuuint64_t dims[4] = {WIDTH, (cuuint64_t)positions, (cuuint64_t)heads, (cuuint64_t)batch};
    const cuuint64_t pitch[3] = {(cuuint64_t)strides.position * 2, (cuuint64_t)strides.head * 2,
                                 (cuuint64_t)strides.batch * 2};
    const cuuint32_t box[4] = {WIDTH, (cuuint32_t)rows, 1, 1};

    return describe_tensor(map, type == CUDNN_DATA_BFLOAT16, 4, tensor, dims, pitch, box);
}

/* Fill in the arguments of both directions; false if a tensor cannot be described. The output is
 * copied 'o_rows' at a time. */
bool describe_common(struct attention_arguments *a, const struct flash_shape *s, const void *q,
                     const void *k, const void *v, const void *o, int o_rows)
{
    const int64_t b = s->batch, h = s->heads, g = s->groups;

    a->scale = s->scale;
    a->batch = (int)b;
    a->heads = (int)h;
    a->groups = (int)g;
    a->queries = (int)s->queries;
    a->keys = (int)s->keys;
    a->query_tiles = (int)divide_up(s->queries, TILE);
    a->key_tiles = (int)divide_up(s->keys, TILE);
    a->ahead = (int)(s->causal ? s->keys - s->queries : s->keys);
    return describe(&a->q, s->type, q, s->q, s->queries, h, b, TILE) &&
           describe(&a->k, s->type, k, s->k, s->keys, g, b, TILE) &&
           describe(&a->v, s->type, v, s->v, s->keys, g, b, TILE) &&
           describe(&a->o, s->type, o, s->o, s->queries, h, b, o_rows);
}

/* Can a tensor with these strides be copied in tiles? TMA needs multiples of 16 bytes. */
bool in_steps(struct flash_strides strides)
{
    return strides.position % 8 == 0 && strides.head % 8 == 0 && strides.batch % 8 == 0;
}

} // namespace

extern "C" int hopper_attention_fits(const struct flash_shape *s)
{
    const int64_t most = INT32_MAX / 4;

    if (s->width != WIDTH || s->dropout > 0 || !(s->scale > 0) ||
        (s->type != CUDNN_DATA_BFLOAT16 && s->type != CUDNN_DATA_HALF))
        return 0;
    if (s->batch < 1 || s->heads < 1 || s->groups < 1 || s->queries < 1 || s->keys < 1 ||
        s->queries > most || s->keys > most || (s->causal && s->keys < s->queries) ||
        s->batch * s->heads > most / divide_up(s->queries + s->keys, TILE))
        return 0;
    if (!in_steps(s->q) || !in_steps(s->k) || !in_steps(s->v) || !in_steps(s->o) ||
        !in_steps(s->dq) || !in_steps(s->dk) || !in_steps(s->dv))
        return 0;
    return has_attention() && has_query_gradient() && has_key_gradient();
}

extern "C" size_t hopper_attention_workspace(const struct flash_shape *s, int backward)
{
    const int64_t tiles = s->batch * s->heads * divide_up(s->queries, TILE);

    return DEVICE_ALIGNMENT + (backward ? (size_t)tiles * sizeof(struct row_facts) : 0);
}

extern "C" int hopper_attention(cudaStream_t stream, const struct flash_shape *s, const void *q,
                                const void *k, const void *v, void *o, float *lse,
                                struct flash_bounds bounds, void *workspace)
{
    struct attention_arguments a = {};

    a.lse_out = lse;
    a.start = s->documents ? bounds.start : NULL;
    a.end = s->ends ? bounds.end : NULL;
    a.next = (int32_t *)workspace;
    if (!describe_common(&a, s, q, k, v, o, SLICE) ||
        cudaMemsetAsync(a.next, 0, sizeof(*a.next), stream))
        return -1;
    return launch_attention(stream, s->type, a);
}

extern "C" int hopper_attention_gradient(cudaStream_t stream, const struct flash_shape *s,
                                         const void *q, const void *k, const void *v, const void *o,
                                         const float *lse, const void *d_o, void *dq, void *dk,
                                         void *dv, struct flash_bounds bounds, void *workspace)
{
    const int64_t b = s->batch, h = s->heads, g = s->groups;
    struct attention_arguments a = {};

    a.lse = lse;
    a.start = s->documents ? bounds.start : NULL;
    a.end = s->ends ? bounds.end : NULL;
    a.next = (int32_t *)workspace;
    a.facts = (struct row_facts *)((char *)workspace + DEVICE_ALIGNMENT);
    if (!describe_common(&a, s, q, k, v, o, TILE) ||
        !describe(&a.d_o, s->type, d_o, s->o, s->queries, h, b, TILE) ||
        !describe(&a.dq, s->type, dq, s->dq, s->queries, h, b, SLICE) ||
        !describe(&a.dk, s->type, dk, s->dk, s->keys, g, b, SLICE) ||
        !describe(&a.dv, s->type, dv, s->dv, s->keys, g, b, SLICE) ||
        cudaMemsetAsync(a.next, 0, 2 * sizeof(*a.next), stream) ||
        launch_query_gradient(stream, s->type, a))
        return -1;
    return launch_key_gradient(stream, s->type, a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on Hopper for heads of 64 to 128 channels: one kernel forward and two for the gradient.
 *
 * The gradient's first kernel iterates over the keys for a tile of queries and keeps dQ in
 * registers; the second one iterates over the queries for a tile of keys and keeps dK and dV in
 * registers. Both compute the scores, so there are seven products instead of the five of a single
 * kernel. With small heads, however, the products are the smaller part of the time, and nothing is
 * accumulated in memory: there is no fp32 copy of dQ to clear, to add to atomically and to convert,
 * and results are bit-identical in every run. */
#include "hopper_attention_launch.cuh"

namespace
{

/* Columns that are copied at a time, as many as a line has in shared memory; 0: no kernel has heads
 * of this size. */
int columns_of(int64_t width)
{
    int columns = 0;

    WITH_WIDTH(width, columns = tile_shape<WIDTH, TILE>::COLUMNS);
    return columns;
}

/* Describe the rows of one head after the other, copied 'rows' at a time. */
bool describe(CUtensorMap *map, const struct flash_shape *s, const void *tensor,
              struct flash_strides strides, int64_t positions, int64_t heads, int rows)
{
    const cuuint64_t dims[4] = {(cuuint64_t)s->width, (cuuint64_t)positions, (cuuint64_t)heads,
                                (cuuint64_t)s->batch};
    const cuuint64_t pitch[3] = {(cuuint64_t)strides.position * 2, (cuuint64_t)strides.head * 2,
                                 (cuuint64_t)strides.batch * 2};
    const cuuint32_t box[4] = {(cuuint32_t)columns_of(s->width), (cuuint32_t)rows, 1, 1};

    return describe_tensor(map, s->type == CUDNN_DATA_BFLOAT16, 4, tensor, dims, pitch, box);
}

/* The same for tensors of queries, or of keys. */
bool describe_queries(CUtensorMap *map, const struct flash_shape *s, const void *tensor,
                      struct flash_strides strides, int rows)
{
    return describe(map, s, tensor, strides, s->queries, s->heads, rows);
}
bool describe_keys(CUtensorMap *map, const struct flash_shape *s, const void *tensor,
                   struct flash_strides strides, int rows)
{
    return describe(map, s, tensor, strides, s->keys, s->groups, rows);
}

/* Fill in what all kernels need but the tensors. */
void set_sizes(struct attention_arguments *a, const struct flash_shape *s,
               struct flash_bounds bounds, void *workspace)
{
    a->start = s->documents ? bounds.start : NULL;
    a->end = s->ends ? bounds.end : NULL;
    a->next = (int32_t *)workspace;
    a->scale = s->scale;
    a->batch = (int)s->batch;
    a->heads = (int)s->heads;
    a->groups = (int)s->groups;
    a->queries = (int)s->queries;
    a->keys = (int)s->keys;
    a->query_tiles = (int)divide_up(s->queries, TILE);
    a->key_tiles = (int)divide_up(s->keys, TILE);
    a->ahead = (int)(s->causal ? s->keys - s->queries : s->keys);
}

/* Can a tensor with these strides be copied in tiles? TMA needs multiples of 16 bytes. */
bool in_steps(struct flash_strides strides)
{
    return strides.position % 8 == 0 && strides.head % 8 == 0 && strides.batch % 8 == 0;
}

/* Heads of 128 channels: seven products take longer than cuDNN's five, but not if documents are
 * masked, for which cuDNN has no fast kernel. */
bool suits(const struct flash_shape *s)
{
    return columns_of(s->width) > 0 && (s->width <= 96 || s->documents || s->ends);
}

} // namespace

extern "C" int hopper_attention_version(const struct flash_shape *s)
{
    const int64_t most = INT32_MAX / 4;

    if (!suits(s) || s->dropout > 0 || !(s->scale > 0) ||
        (s->type != CUDNN_DATA_BFLOAT16 && s->type != CUDNN_DATA_HALF))
        return 0;
    if (s->batch < 1 || s->heads < 1 || s->groups < 1 || s->queries < 1 || s->keys < 1 ||
        s->queries > most || s->keys > most || (s->causal && s->keys < s->queries) ||
        s->batch * s->heads > most / divide_up(s->queries + s->keys, TILE))
        return 0;
    if (!in_steps(s->q) || !in_steps(s->k) || !in_steps(s->v) || !in_steps(s->o) ||
        !in_steps(s->dq) || !in_steps(s->dk) || !in_steps(s->dv))
        return 0;
    if (!has_attention((int)s->width) || !has_query_gradient((int)s->width) ||
        !has_key_gradient((int)s->width))
        return 0;
    return s->width == 64 ? 2 : 1;
}

extern "C" size_t hopper_attention_workspace(const struct flash_shape *s, int backward)
{
    const int64_t tiles = s->batch * s->heads * divide_up(s->queries, TILE);

    return DEVICE_ALIGNMENT + (backward ? (size_t)tiles * sizeof(struct row_facts<TILE>) : 0);
}

extern "C" int hopper_attention(cudaStream_t stream, const struct flash_shape *s, const void *q,
                                const void *k, const void *v, void *o, float *lse,
                                struct flash_bounds bounds, void *workspace)
{
    const int key_rows = passing_keys((int)s->width);
    struct attention_arguments a = {};

    set_sizes(&a, s, bounds, workspace);
    a.lse_out = lse;
    if (!describe_queries(&a.q, s, q, s->q, TILE) || !describe_keys(&a.k, s, k, s->k, key_rows) ||
        !describe_keys(&a.v, s, v, s->v, key_rows) || !describe_queries(&a.o, s, o, s->o, SLICE) ||
        cudaMemsetAsync(a.next, 0, sizeof(*a.next), stream))
        return -1;
    return launch_attention(stream, s->type, (int)s->width, a);
}

extern "C" int hopper_attention_gradient(cudaStream_t stream, const struct flash_shape *s,
                                         const void *q, const void *k, const void *v, const void *o,
                                         const float *lse, const void *d_o, void *dq, void *dk,
                                         void *dv, struct flash_bounds bounds, void *workspace)
{
    const int width = (int)s->width;
    const int query_rows = passing_queries(width), key_rows = passing_keys(width);
    struct attention_arguments a = {};

    set_sizes(&a, s, bounds, workspace);
    a.lse = lse;
    a.facts = (char *)workspace + DEVICE_ALIGNMENT;
    a.out = {o, s->o.batch, s->o.head, s->o.position};
    if (!describe_queries(&a.q, s, q, s->q, TILE) ||
        !describe_queries(&a.d_o, s, d_o, s->o, TILE) ||
        !describe_queries(&a.o, s, o, s->o, TILE) || !describe_keys(&a.k, s, k, s->k, key_rows) ||
        !describe_keys(&a.v, s, v, s->v, key_rows) ||
        !describe_queries(&a.dq, s, dq, s->dq, SLICE) ||
        cudaMemsetAsync(a.next, 0, 2 * sizeof(*a.next), stream) ||
        launch_query_gradient(stream, s->type, width, a))
        return -1;
    if (!describe_queries(&a.q, s, q, s->q, query_rows) ||
        !describe_queries(&a.d_o, s, d_o, s->o, query_rows) ||
        !describe_keys(&a.k, s, k, s->k, TILE) || !describe_keys(&a.v, s, v, s->v, TILE) ||
        !describe_keys(&a.dk, s, dk, s->dk, SLICE) || !describe_keys(&a.dv, s, dv, s->dv, SLICE))
        return -1;
    return launch_key_gradient(stream, s->type, width, a);
}

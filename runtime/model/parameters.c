#include "parameters.h"
#include "rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT   128  /* elements between the starts of tensors */
#define OUTER_LAYER 8191 /* in the purpose of draws: what belongs to no layer */

/* A build under way; any failure of memory is kept until the end. */
struct builder {
    struct parameters *p;
    const struct model_config *config;
    const struct layout *layout;
    const struct layout_position *at;
    int bucket, failed;
    int64_t bucket_elements; /* so far */
};

static void *grow(struct builder *b, void *items, int count, size_t size)
{
    void *more;

    /* Room for 16, then doubled whenever a power of two is full. */
    if (count != 0 && (count < 16 || (count & (count - 1)) != 0))
        return items;
    more = realloc(items, (size_t)(count ? 2 * count : 16) * size);
    if (!more)
        b->failed = 1;
    return more ? more : items;
}

static int begin_tensor(struct builder *b, enum parameter_class class)
{
    struct parameters *p = b->p;

    p->tensors = grow(b, p->tensors, p->tensor_count, sizeof(*p->tensors));
    if (b->failed)
        return -1;
    p->tensors[p->tensor_count] =
        (struct tensor){.bucket = b->bucket, .class = class, .first = p->count};
    return p->tensor_count++;
}

/* Add a piece to the tensor begun last. 'divided' says which dimension tensor parallelism cuts:
 * 0 rows, 1 columns, -1 none. */
static void add_piece(struct builder *b, const char *name, int64_t layer, int kind, int64_t rows,
                      int64_t cols, int divided, double deviation, double start)
{
    struct parameters *p = b->p;
    int64_t tp = b->layout->tp;
    struct parameter piece = {.rows = divided == 0 ? rows / tp : rows,
                              .cols = divided == 1 ? cols / tp : cols,
                              .all_rows = rows,
                              .all_cols = cols,
                              .true_rows = rows,
                              .tensor = p->tensor_count - 1,
                              .deviation = deviation,
                              .start = start};

    p->list = grow(b, p->list, p->count, sizeof(*p->list));
    if (b->failed)
        return;
    piece.class = p->tensors[piece.tensor].class;
    piece.first_row = divided == 0 ? piece.rows * b->at->tp : 0;
    piece.first_col = divided == 1 ? piece.cols * b->at->tp : 0;
    piece.purpose = (uint32_t)(RNG_INIT + (layer < 0 ? OUTER_LAYER : layer) * 8 + kind);
    if (layer < 0)
        snprintf(piece.name, sizeof(piece.name), "%s", name);
    else
        snprintf(piece.name, sizeof(piece.name), "layers.%lld.%s", (long long)layer, name);
    p->list[p->count++] = piece;
    p->tensors[piece.tensor].elements += piece.rows * piece.cols;
    p->tensors[piece.tensor].pieces++;
    b->bucket_elements += piece.rows * piece.cols;
}

static int add_vector(struct builder *b, int used, const char *name, int64_t layer, int64_t size,
                      int divided, double start)
{
    int tensor;

    if (!used)
        return -1;
    tensor = begin_tensor(b, divided ? CLASS_RAW : CLASS_SHARED_RAW);
    add_piece(b, name, layer, 0, 1, size, divided ? 1 : -1, 0, start);
    return tensor;
}

static int add_matrix(struct builder *b, const char *name, int64_t layer, int kind, int64_t rows,
                      int64_t cols, int divided, double deviation)
{
    int tensor = begin_tensor(b, CLASS_DIVIDED);

    add_piece(b, name, layer, kind, rows, cols, divided, deviation, 0);
    return tensor;
}

static void add_attention(struct builder *b, struct layer_tensors *t, int64_t layer, double std,
                          double deep)
{
    const struct model_config *c = b->config;
    int64_t h = c->shape.hidden, d = c->shape.kv_channels;
    int64_t q = c->shape.heads * d, kv = c->shape.query_groups * d;

    t->qkv = begin_tensor(b, CLASS_DIVIDED);
    add_piece(b, "attention.query.weight", layer, 0, q, h, 0, std, 0);
    add_piece(b, "attention.key.weight", layer, 1, kv, h, 0, std, 0);
    add_piece(b, "attention.value.weight", layer, 2, kv, h, 0, std, 0);
    t->qkv_bias = -1;
    if (c->linear_bias || c->qkv_bias) {
        t->qkv_bias = begin_tensor(b, CLASS_RAW);
        add_piece(b, "attention.query.bias", layer, 0, 1, q, 1, 0, 0);
        add_piece(b, "attention.key.bias", layer, 0, 1, kv, 1, 0, 0);
        add_piece(b, "attention.value.bias", layer, 0, 1, kv, 1, 0, 0);
    }
    t->projection = add_matrix(b, "attention.projection.weight", layer, 3, h, q, 1, deep);
    t->projection_bias = add_vector(b, c->linear_bias, "attention.projection.bias", layer, h, 0, 0);
}

static void add_mlp(struct builder *b, struct layer_tensors *t, int64_t layer, double std,
                    double deep)
{
    const struct model_config *c = b->config;
    int64_t h = c->shape.hidden, f = c->shape.ffn_hidden;

    t->fc1 = begin_tensor(b, CLASS_DIVIDED);
    if (c->swiglu)
        add_piece(b, "mlp.gate.weight", layer, 4, f, h, 0, std, 0);
    add_piece(b, "mlp.up.weight", layer, 5, f, h, 0, std, 0);
    t->fc1_bias = -1;
    if (c->linear_bias) {
        t->fc1_bias = begin_tensor(b, CLASS_RAW);
        if (c->swiglu)
            add_piece(b, "mlp.gate.bias", layer, 0, 1, f, 1, 0, 0);
        add_piece(b, "mlp.up.bias", layer, 0, 1, f, 1, 0, 0);
    }
    t->fc2 = add_matrix(b, "mlp.down.weight", layer, 6, h, f, 1, deep);
    t->fc2_bias = add_vector(b, c->linear_bias, "mlp.down.bias", layer, h, 0, 0);
}

static void add_layer(struct builder *b, struct layer_tensors *t, int64_t layer)
{
    const struct model_config *c = b->config;
    double std = c->init_std, deep = std / sqrt(2.0 * (double)c->shape.layers);
    int64_t h = c->shape.hidden;

    t->norm1 = add_vector(b, 1, "norm1.weight", layer, h, 0, 1);
    t->norm1_bias = add_vector(b, c->norm == NORM_LAYER, "norm1.bias", layer, h, 0, 0);
    add_attention(b, t, layer, std, deep);
    t->norm2 = add_vector(b, 1, "norm2.weight", layer, h, 0, 1);
    t->norm2_bias = add_vector(b, c->norm == NORM_LAYER, "norm2.bias", layer, h, 0, 0);
    add_mlp(b, t, layer, std, deep);
}

/* A table with one row per token of the padded vocabulary. */
static int add_vocabulary(struct builder *b, const char *name, int kind, enum parameter_class class)
{
    int tensor = begin_tensor(b, class);

    add_piece(b, name, -1, kind, b->config->padded_vocabulary, b->config->shape.hidden, 0,
              b->config->init_std, 0);
    if (!b->failed)
        b->p->list[b->p->count - 1].true_rows = b->config->shape.vocabulary;
    return tensor;
}

static void begin_bucket(struct builder *b, int64_t chunk, int64_t layer)
{
    struct parameters *p = b->p;

    /* Room was made for one bucket per layer. */
    p->buckets[p->bucket_count] = (struct bucket){.group = SHARD_GROUP_DATA,
                                                  .shards = (int)shard_count(b->layout),
                                                  .chunk = (int)chunk,
                                                  .layer = layer};
    b->bucket = p->bucket_count++;
    b->bucket_elements = 0;
}

/* Layers fill buckets from the first on. The ends of the model go to a chunk's first bucket, which
 * is complete last. Where nothing is reduced one bucket is enough. */
static void add_chunk(struct builder *b, int64_t chunk)
{
    const struct model_config *c = b->config;
    struct parameters *p = b->p;
    int64_t layers = c->shape.layers / (b->layout->pp * c->chunks), h = c->shape.hidden;
    int last = model_chunk_last(c, b->layout, b->at->pp, chunk), first_bucket;

    begin_bucket(b, chunk, 0);
    first_bucket = b->bucket;
    if (model_chunk_first(b->at->pp, chunk)) {
        p->word = add_vocabulary(b, "embedding.word.weight", 0, CLASS_DIVIDED);
        if (c->position == POSITION_LEARNED) {
            p->position = begin_tensor(b, CLASS_SHARED);
            add_piece(b, "embedding.position.weight", -1, 1, c->positions, h, -1, c->init_std, 0);
        }
    }
    for (int64_t i = 0; i < layers; i++) {
        if (i > 0 && p->buckets[b->bucket].shards > 1 && b->bucket_elements >= c->bucket_elements)
            begin_bucket(b, chunk, i);
        add_layer(b, &p->layers[chunk * layers + i],
                  model_layer(c, b->layout, b->at->pp, chunk, i));
    }
    b->bucket = first_bucket;
    if (!last)
        return;
    p->final_norm = add_vector(b, 1, "final_norm.weight", -1, h, 0, 1);
    p->final_norm_bias = add_vector(b, c->norm == NORM_LAYER, "final_norm.bias", -1, h, 0, 0);
    if (!c->tied)
        p->head = add_vocabulary(b, "head.weight", 2, CLASS_DIVIDED);
    else if (p->word >= 0)
        p->head = p->word;
    else
        p->head = add_vocabulary(b, "embedding.word.weight", 0, CLASS_TIED);
}

/* Offsets of all tensors, bucket by bucket and class by class. */
static void place(struct builder *b)
{
    struct parameters *p = b->p;
    int64_t at = 0, shard = 0;

    for (int i = 0; i < p->bucket_count; i++) {
        struct bucket *bucket = &p->buckets[i];
        int64_t unit = (int64_t)ALIGNMENT * bucket->shards;

        bucket->first = at;
        bucket->shard_first = shard;
        for (int class = 0; class < CLASS_COUNT; class ++) {
            bucket->class_first[class] = at - bucket->first;
            for (int t = 0; t < p->tensor_count; t++) {
                struct tensor *tensor = &p->tensors[t];

                if (tensor->bucket != i || tensor->class != (enum parameter_class) class)
                    continue;
                tensor->offset = at;
                at += (tensor->elements + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            }
            bucket->class_size[class] = at - bucket->first - bucket->class_first[class];
            if (class == CLASS_SHARED)
                bucket->decayed = at - bucket->first;
        }
        at = bucket->first + (at - bucket->first + unit - 1) / unit * unit;
        bucket->size = at - bucket->first;
        shard += bucket_shard(bucket, 0).count;
    }
    p->elements = at;
    p->shard_elements = shard;
    for (int i = 0; i < p->count; i++) {
        const struct tensor *tensor = &p->tensors[p->list[i].tensor];
        int64_t offset = tensor->offset;

        for (int before = tensor->first; before < i; before++)
            offset += p->list[before].rows * p->list[before].cols;
        p->list[i].offset = offset;
        p->true_elements += p->list[i].rows * p->list[i].cols;
    }
}

int parameters_create(struct parameters *parameters, const struct model_config *config,
                      const struct layout *layout, const struct layout_position *at,
                      struct error *err)
{
    struct builder b = {parameters, config, layout, at, 0, 0, 0};
    size_t layers = (size_t)(config->shape.layers / layout->pp);

    memset(parameters, 0, sizeof(*parameters));
    parameters->word = parameters->position = parameters->head = -1;
    parameters->final_norm = parameters->final_norm_bias = -1;
    parameters->layers = calloc(layers, sizeof(*parameters->layers));
    parameters->buckets = calloc(layers, sizeof(*parameters->buckets));
    if (!parameters->layers || !parameters->buckets)
        return error_set(err, "out of memory");
    for (int64_t chunk = 0; chunk < config->chunks; chunk++)
        add_chunk(&b, chunk);
    if (b.failed)
        return error_set(err, "out of memory");
    place(&b);
    return 0;
}

void parameters_destroy(struct parameters *parameters)
{
    free(parameters->list);
    free(parameters->tensors);
    free(parameters->buckets);
    free(parameters->layers);
    memset(parameters, 0, sizeof(*parameters));
}

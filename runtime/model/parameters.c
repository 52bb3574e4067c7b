/* SPDX-License-Identifier: Apache-2.0 */
#include "builder.h"
#include "rng.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT   128  /* elements between the starts of tensors */
#define OUTER_LAYER 8191 /* in the purpose of random draws: outside all layers */

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

int builder_tensor(struct builder *b, enum parameter_class class)
{
    struct parameters *p = b->p;

    p->tensors = grow(b, p->tensors, p->tensor_count, sizeof(*p->tensors));
    if (b->failed)
        return -1;
    p->tensors[p->tensor_count] =
        (struct tensor){.bucket = b->bucket, .class = class, .first = p->count};
    return p->tensor_count++;
}

/* 'name' is that of the whole tensor. */
static void add_named(struct builder *b, const struct block *block, const char *name,
                      const struct parameter_spec *spec)
{
    struct parameters *p = b->p;
    struct range rows = {0, spec->rows}, cols = {0, spec->cols};
    int64_t layer = block->number < 0 ? OUTER_LAYER : block->number;

    assert(spec->draw >= 0 && spec->draw < PARAMETER_DRAWS);
    if (spec->split == SPLIT_ROWS)
        rows = range_tensor(b->layout, b->at, spec->rows);
    if (spec->split == SPLIT_COLS)
        cols = range_tensor(b->layout, b->at, spec->cols);
    p->list = grow(b, p->list, p->count, sizeof(*p->list));
    if (b->failed)
        return;
    p->list[p->count] = (struct parameter){
        .rows = rows.count,
        .cols = cols.count,
        .first_row = rows.first,
        .first_col = cols.first,
        .all_rows = spec->rows,
        .all_cols = spec->cols,
        .true_rows = spec->rows,
        .tensor = p->tensor_count - 1,
        .class = p->tensors[p->tensor_count - 1].class,
        .deviation = spec->deviation,
        .start = spec->start,
        .purpose = (uint32_t)(RNG_INIT + layer * PARAMETER_DRAWS + spec->draw),
    };
    snprintf(p->list[p->count].name, sizeof(p->list[p->count].name), "%s", name);
    p->count++;
    p->tensors[p->tensor_count - 1].elements += rows.count * cols.count;
    p->tensors[p->tensor_count - 1].pieces++;
    b->bucket_elements += rows.count * cols.count;
}

void builder_add(struct builder *b, const struct block *block, const struct parameter_spec *spec)
{
    char name[64];

    if (block->number < 0)
        snprintf(name, sizeof(name), "%s.%s", block->name, spec->name);
    else
        snprintf(name, sizeof(name), "layers.%lld.%s.%s", (long long)block->number, block->name,
                 spec->name);
    add_named(b, block, name, spec);
}

int builder_matrix(struct builder *b, const struct block *block, const struct parameter_spec *spec)
{
    int tensor = builder_tensor(b, CLASS_DIVIDED);

    builder_add(b, block, spec);
    return tensor;
}

int builder_vector(struct builder *b, const struct block *block, const char *name, int64_t size,
                   double start)
{
    int tensor = builder_tensor(b, CLASS_SHARED_RAW);

    builder_add(b, block, &(struct parameter_spec){name, 1, size, SPLIT_NONE, 0, 0, start});
    return tensor;
}

int builder_vocabulary(struct builder *b, const struct block *block, const char *name, int draw,
                       enum parameter_class class)
{
    const struct model_config *c = b->config;
    int tensor = builder_tensor(b, class);

    add_named(b, block, name,
              &(struct parameter_spec){name, c->padded_vocabulary, c->shape.hidden, SPLIT_ROWS,
                                       draw, c->init_std, 0});
    if (!b->failed)
        b->p->list[b->p->count - 1].true_rows = c->shape.vocabulary;
    return tensor;
}

double builder_output_deviation(const struct builder *b)
{
    if (b->config->post_norm) /* its norms bound the stream */
        return b->config->init_std;
    return b->config->init_std / sqrt(2.0 * (double)b->config->shape.layers);
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

/* Layers fill buckets from the first on. What is outside the layers goes to a chunk's first bucket,
 * which is complete last. One bucket is enough if nothing is reduced. */
static void add_chunk(struct builder *b, struct network *n, int64_t chunk)
{
    struct parameters *p = b->p;
    int first_bucket;

    begin_bucket(b, chunk, 0);
    first_bucket = b->bucket;
    for (int i = n->first[chunk]; i < n->first[chunk + 1]; i++) {
        struct block *block = &n->blocks[i];

        if (block->layer < 0)
            b->bucket = first_bucket;
        else if (block->layer > 0 && block->position == 0 && p->buckets[b->bucket].shards > 1 &&
                 b->bucket_elements >= b->config->bucket_elements)
            begin_bucket(b, chunk, block->layer);
        block->kind->add_parameters(b, block);
    }
}

/* Offsets of all tensors, bucket by bucket and class by class. */
static void lay_out_tensors(struct parameters *p)
{
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
        bucket->vectors = p->vector_elements;
        p->vector_elements += bucket_vectors(bucket).count;
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
    size_t layers = (size_t)model_layers_before(config, layout, at->pp, config->chunks);

    memset(parameters, 0, sizeof(*parameters));
    parameters->word = parameters->head = -1;
    parameters->network = network_create(config, layout, at, err);
    if (!parameters->network)
        return -1;
    parameters->buckets = calloc(layers, sizeof(*parameters->buckets));
    if (!parameters->buckets)
        return error_set(err, "out of memory");
    for (int64_t chunk = 0; chunk < config->chunks; chunk++)
        add_chunk(&b, parameters->network, chunk);
    if (b.failed)
        return error_set(err, "out of memory");
    lay_out_tensors(parameters);
    return 0;
}

void parameters_destroy(struct parameters *parameters)
{
    free(parameters->list);
    free(parameters->tensors);
    free(parameters->buckets);
    network_destroy(parameters->network);
    memset(parameters, 0, sizeof(*parameters));
}

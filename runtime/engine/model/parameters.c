/* SPDX-License-Identifier: Apache-2.0 */
#include "builder.h"
#include "fp8_layers.h"
#include "base/core/rng.h"
#include "base/core/xmalloc.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT   128  /* elements between the starts of tensors */
#define OUTER_LAYER 8191 /* in the purpose of random draws: outside all layers */

/* Room for 16, then doubled whenever a power of two is full. */
static void *grow(void *items, int count, size_t size)
{
    bool full = count == 0 || (count >= 16 && (count & (count - 1)) == 0);

    return full ? xrealloc(items, count ? 2 * (size_t)count : 16, size) : items;
}

int builder_tensor(struct builder *b, enum parameter_class class)
{
    struct parameters *p = b->p;

    p->tensors = grow(p->tensors, p->tensor_count, sizeof(*p->tensors));
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
    p->list = grow(p->list, p->count, sizeof(*p->list));
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
              &(struct parameter_spec){name, c->padded_vocabulary, c->network.shape.hidden,
                                       SPLIT_ROWS, draw, c->network.init_std, 0});
    b->p->list[b->p->count - 1].true_rows = c->network.shape.vocabulary;
    return tensor;
}

double builder_output_deviation(const struct builder *b)
{
    if (b->config->network.post_norm) /* its norms bound the stream */
        return b->config->network.init_std;
    return b->config->network.init_std / sqrt(2.0 * (double)b->config->network.shape.layers);
}

static void begin_bucket(struct builder *b, int64_t chunk, int64_t layer)
{
    struct parameters *p = b->p;

    /* Room was made for one bucket per layer. */
    p->buckets[p->bucket_count] = (struct bucket){.type = b->config->numerics.type,
                                                  .shards = (int)shard_count(b->layout),
                                                  .chunk = (int)chunk,
                                                  .layer = layer};
    b->bucket = p->bucket_count++;
    b->bucket_elements = 0;
}

/* Layers fill buckets from the first on. What is outside the layers goes to a chunk's first bucket,
 * which is complete last. One bucket is enough if nothing is reduced. */
static void add_chunk(struct builder *b, struct block_list *n, int64_t chunk)
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

/* The weights of a block that are kept in fp8. */
static void mark_fp8(const struct builder *b, const struct block *block, char *fp8)
{
    const struct model_sizes sizes = model_sizes(b->config, b->layout);

    for (int i = 0; i < block->kind->linear_count && block->fp8; i++)
        fp8[block->tensors[block->kind->linears[i]]] =
            fp8_gathers(b->config, &sizes, (enum linear_kind)(block->kind->first_linear + i)) != 0;
}

/* Append a copy of a bucket with those of its tensors that are in fp8, or with the others. */
static void copy_bucket(struct builder *b, const struct bucket *from, int number, const char *fp8,
                        int in_fp8, int *moved)
{
    struct parameters *p = b->p;
    int any = 0;

    for (int t = 0; t < p->tensor_count; t++)
        if (p->tensors[t].bucket == number && fp8[t] == in_fp8) {
            moved[t] = p->bucket_count;
            any = 1;
        }
    if (!any)
        return;
    p->buckets[p->bucket_count] = *from;
    if (in_fp8)
        p->buckets[p->bucket_count].type = TYPE_E4M3;
    p->bucket_count++;
}

/* Weights in fp8 leave the others: a shard has as many bytes on every rank. */
static void divide_buckets(struct builder *b)
{
    struct parameters *p = b->p;
    int count = p->bucket_count;
    struct bucket *before = p->buckets;
    char *fp8 = xcalloc((size_t)p->tensor_count, 1);
    int *moved = xcalloc((size_t)p->tensor_count, sizeof(*moved));

    for (int i = 0; i < p->blocks->count; i++)
        mark_fp8(b, &p->blocks->blocks[i], fp8);
    p->buckets = xcalloc(2 * (size_t)count, sizeof(*p->buckets));
    p->bucket_count = 0;
    for (int i = 0; i < 2 * count; i++)
        copy_bucket(b, &before[i / 2], i / 2, fp8, i % 2, moved);
    for (int t = 0; t < p->tensor_count; t++)
        p->tensors[t].bucket = moved[t];
    free(before);
    free(fp8);
    free(moved);
}

/* Offsets of all tensors, bucket by bucket and class by class. */
static void lay_out_tensors(struct parameters *p)
{
    int64_t at = 0, shard = 0;
    size_t bytes = 0;

    for (int i = 0; i < p->bucket_count; i++) {
        struct bucket *bucket = &p->buckets[i];
        int64_t unit = (int64_t)ALIGNMENT * bucket->shards;

        bucket->first = at;
        bucket->weights = bytes;
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
        bytes = (bucket_weight(bucket, at) + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT *
                DEVICE_ALIGNMENT;
        bucket->vectors = p->vector_elements;
        p->vector_elements += bucket_vectors(bucket).count;
        shard += bucket_shard(bucket, 0).count;
    }
    p->elements = at;
    p->shard_elements = shard;
    p->weight_bytes = bytes;
    for (int i = 0; i < p->count; i++) {
        const struct tensor *tensor = &p->tensors[p->list[i].tensor];
        int64_t offset = tensor->offset;

        for (int before = tensor->first; before < i; before++)
            offset += p->list[before].rows * p->list[before].cols;
        p->list[i].offset = offset;
        p->true_elements += p->list[i].rows * p->list[i].cols;
    }
}

void parameters_create(struct parameters *parameters, const struct model_config *config,
                       const struct layout *layout, const struct layout_position *at)
{
    struct builder b = {parameters, config, layout, at, 0, 0};
    size_t layers = (size_t)model_layers_before(config, layout, at->pp, config->split.chunks);

    memset(parameters, 0, sizeof(*parameters));
    parameters->word = parameters->head = -1;
    parameters->blocks = block_list_create(config, layout, at);
    parameters->buckets = xcalloc(layers, sizeof(*parameters->buckets));
    for (int64_t chunk = 0; chunk < config->split.chunks; chunk++)
        add_chunk(&b, parameters->blocks, chunk);
    if (config->numerics.fp8.gather)
        divide_buckets(&b);
    lay_out_tensors(parameters);
}

void parameters_destroy(struct parameters *parameters)
{
    free(parameters->list);
    free(parameters->tensors);
    free(parameters->buckets);
    block_list_destroy(parameters->blocks);
    memset(parameters, 0, sizeof(*parameters));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model_private.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static float *start_weights(const struct model *m)
{
    return m->start_weights ? m->start_weights : (float *)m->gradients;
}

struct model_facts model_facts(const struct model *m)
{
    const struct fp8_layers *fp8 = &m->fp8;

    return (struct model_facts){
        .parameters = &m->parameters,
        .sizes = &m->sizes,
        .stream = m->overlap.compute,
        .state = m->state,
        .weights = m->weights,
        .gradients = m->gradients,
        .gradient_type = m->config.numerics.gradient_type,
        .vectors = m->vectors,
        .start_weights = start_weights(m),
        .staged = {m->staged[0], m->staged[1]},
        .input = m->scratch.arrived,
        .output_gradient = m->scratch.arrived_gradient,
        .logits = m->logits,
        .scaling = fp8->weights ? fp8->kept : NULL,
        .scaling_rules = fp8->rules,
        .keeps_fp8 = m->config.numerics.fp8.gather,
        .casts_late = m->config.numerics.fp8.gather && !fp8->rules.delayed,
    };
}

static void create_chunk(struct model *m, int64_t number)
{
    const struct block_list *n = m->parameters.blocks;
    struct chunk *chunk = &m->chunks[number];

    chunk->first = model_chunk_first(m->parallel->at.pp, number);
    chunk->last = model_chunk_last(&m->config, &m->parallel->layout, m->parallel->at.pp, number);
    chunk->blocks = n->blocks + n->first[number];
    chunk->block_count = n->first[number + 1] - n->first[number];
    chunk->slots = xcalloc((size_t)m->slots, sizeof(*chunk->slots));
    for (int i = 0; i < m->slots; i++) {
        struct slot *slot = &chunk->slots[i];

        slot->memory = xcalloc((size_t)chunk->block_count, sizeof(*slot->memory));
        for (int b = 0; b < chunk->block_count; b++)
            slot->memory[b] = xcalloc(1, chunk->blocks[b].kind->memory_size + 1);
    }
}

static void destroy_chunks(struct model *m)
{
    for (int64_t c = 0; c < m->config.split.chunks; c++) {
        struct chunk *chunk = &m->chunks[c];

        for (int i = 0; i < m->slots; i++) {
            for (int b = 0; b < chunk->block_count; b++)
                free(chunk->slots[i].memory[b]);
            free(chunk->slots[i].memory);
        }
        free(chunk->slots);
    }
    free(m->chunks);
}

struct model *model_create_shell(const struct model_config *config, const struct parallel *parallel,
                                 int slots)
{
    struct model *m = xcalloc(1, sizeof(*m));

    m->config = *config;
    m->parallel = parallel;
    m->sizes = model_sizes(config, &parallel->layout);
    m->slots = slots;
    parameters_create(&m->parameters, config, &parallel->layout, &parallel->at);
    m->chunks = xcalloc((size_t)config->split.chunks, sizeof(*m->chunks));
    for (int64_t c = 0; c < config->split.chunks; c++)
        create_chunk(m, c);
    model_create_commons(m);
    fp8_layers_create(m);
    return m;
}

void model_plan_memory(const struct model_config *config, const struct layout *layout,
                       const struct layout_position *at, int slots, struct model_memory *memory)
{
    struct parallel parallel = {.layout = *layout, .at = *at};
    struct model *m = model_create_shell(config, &parallel, slots);

    memory->weights = m->parameters.weight_bytes;
    memory->gradients = (size_t)m->parameters.elements * type_size(config->numerics.gradient_type);
    memory->optimizer = 0;
    memory->activations = model_lay_out(m, NULL);
    if (config->numerics.gradient_type != TYPE_FP32) /* they are among them */
        memory->activations -= memory->gradients;
    model_destroy(m);
}

void model_upload(struct planner *p, struct model *m, void *to, const void *from, size_t bytes)
{
    void *host = p->failed ? NULL : device_host_allocate(m->device, bytes, p->err);

    p->failed = !host;
    if (!host)
        return;
    memcpy(host, from, bytes);
    device_copy(compute(m), to, host, bytes, COPY_TO_DEVICE);
    p->failed = device_stream_wait(compute(m), 600, p->err) < 0;
    device_host_release(m->device, host);
}

static int create_arenas(struct model *m, struct error *err)
{
    const struct parameters *p = &m->parameters;
    size_t bytes = model_lay_out(m, NULL);

    m->weights = device_allocate(m->device, p->weight_bytes, err);
    if (!m->weights)
        return error_prefix(err, "weights");
    if (m->config.numerics.gradient_type == TYPE_FP32)
        m->gradients = device_allocate(m->device, (size_t)p->elements * sizeof(float), err);
    if (m->config.numerics.gradient_type == TYPE_FP32 && !m->gradients)
        return error_prefix(err, "gradients");
    m->activations = device_allocate(m->device, bytes, err);
    if (!m->activations)
        return error_prefix(err, "activations");
    model_lay_out(m, m->activations);
    return 0;
}

int model_clear(struct model *m, void *memory, int64_t elements, enum device_type type,
                struct error *err)
{
    struct operation op = {.kind = OPERATION_FILL, .fill = {elements, type, 0}};
    struct fill_operands operands = {memory};

    return !memory || elements == 0
               ? 0
               : plan_run_once(compute(m), &op, &operands, sizeof(operands), err);
}

/* Padding between tensors is reduced and optimized with them: it must be 0 and stay 0. */
static int clear_arenas(struct model *m, struct error *err)
{
    const struct parameters *p = &m->parameters;

    if (model_clear(m, start_weights(m), p->elements, TYPE_FP32, err) < 0 ||
        model_clear(m, m->vectors, p->vector_elements, TYPE_FP32, err) < 0)
        return -1;
    return model_clear(m, m->weights, (int64_t)(p->weight_bytes / sizeof(float)), TYPE_FP32, err);
}

int model_start(struct model *m, struct error *err)
{
    if (!m->start_weights)
        return 0;
    return model_clear(m, m->gradients, m->parameters.elements, m->config.numerics.gradient_type,
                       err);
}

struct model *model_create(const struct model_config *config, const struct parallel *parallel,
                           struct device *device, int slots, struct error *err)
{
    struct model *m = model_create_shell(config, parallel, slots);

    m->device = device;
    overlap_create(&m->overlap, parallel, device);
    if (create_arenas(m, err) < 0 || clear_arenas(m, err) < 0 || model_create_cache(m, err) < 0 ||
        model_prepare_blocks(m, err) < 0 || fp8_layers_prepare(m, err) < 0) {
        model_destroy(m);
        return NULL;
    }
    return m;
}

void model_destroy(struct model *m)
{
    if (!m)
        return;
    model_unregister(m);
    model_destroy_commons(m);
    free(m->fp8.weights);
    if (!m->base)
        overlap_destroy(&m->overlap);
    if (m->device && !m->base) {
        device_release(m->device, m->weights);
        if (m->config.numerics.gradient_type == TYPE_FP32)
            device_release(m->device, m->gradients);
        device_release(m->device, m->cache);
    }
    if (m->device)
        device_release(m->device, m->activations);
    destroy_chunks(m);
    parameters_destroy(&m->parameters);
    free(m);
}

static int initialize_one(struct model *m, const struct parameter *p, struct error *err)
{
    int64_t rows = p->true_rows - p->first_row;
    float *out = start_weights(m) + p->offset;
    struct normal_operands random = {out, m->config.seed, p->purpose};
    struct fill_operands same = {out};
    struct operation op = {.kind = OPERATION_FILL};

    rows = rows < 0 ? 0 : rows < p->rows ? rows : p->rows;
    if (rows == 0 || (p->deviation == 0 && p->start == 0))
        return 0;
    if (p->deviation == 0) {
        op.fill = (struct fill_shape){rows * p->cols, TYPE_FP32, p->start};
        return plan_run_once(compute(m), &op, &same, sizeof(same), err);
    }
    op.kind = OPERATION_NORMAL;
    op.normal =
        (struct normal_shape){rows, p->cols, p->first_row, p->first_col, p->all_cols, p->deviation};
    return plan_run_once(compute(m), &op, &random, sizeof(random), err);
}

/* The weights of a bucket that is not in fp8. */
static int adopt_bucket(struct model *m, const struct bucket *bucket, struct error *err)
{
    struct operation op = {
        .kind = OPERATION_CONVERT,
        .convert = {bucket->size, TYPE_FP32, m->config.numerics.type, m->config.numerics.half}};
    struct convert_operands operands = {start_weights(m) + bucket->first,
                                        m->weights + bucket->weights};

    return plan_run_once(compute(m), &op, &operands, sizeof(operands), err);
}

int model_adopt(struct model *m, struct error *err)
{
    const struct parameters *p = &m->parameters;

    for (int i = 0; i < p->bucket_count; i++)
        if (p->buckets[i].type == m->config.numerics.type &&
            adopt_bucket(m, &p->buckets[i], err) < 0)
            return -1;
    return fp8_gather_adopt(m, err);
}

int model_initialize(struct model *m, struct error *err)
{
    if (clear_arenas(m, err) < 0)
        return -1;
    for (int i = 0; i < m->parameters.count; i++)
        if (initialize_one(m, &m->parameters.list[i], err) < 0)
            return error_prefix(err, "%s", m->parameters.list[i].name);
    return model_adopt(m, err);
}

const struct model_batch *model_batch(struct model *model, int chunk, int slot)
{
    return &model->chunks[chunk].slots[slot].batch;
}

void *model_output(struct model *model, int chunk, int slot)
{
    struct chunk *c = &model->chunks[chunk];
    const struct pass pass = {.slot = &c->slots[slot]};

    return c->last ? NULL : norm_stream(&pass, &c->blocks[c->block_count - 1]);
}

void *model_input_gradient(struct model *model, int chunk, int slot)
{
    struct chunk *c = &model->chunks[chunk];

    return c->first ? NULL : c->slots[slot].gradient;
}

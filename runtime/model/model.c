#include "model_private.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct parameters *model_parameters_of(const struct model *model)
{
    return &model->parameters;
}

const struct model_sizes *model_sizes_of(const struct model *model)
{
    return &model->sizes;
}

void *model_weights(struct model *model)
{
    return model->weights;
}

float *model_gradients(struct model *model)
{
    return model->gradients;
}

struct device_stream *model_stream(struct model *model)
{
    return model->compute;
}

struct step_state *model_state(struct model *model)
{
    return model->state;
}

static int create_chunks(struct model *m, const struct layout_position *at, const int *slots,
                         struct error *err)
{
    m->chunks = calloc((size_t)m->config.chunks, sizeof(*m->chunks));
    if (!m->chunks)
        return error_set(err, "out of memory");
    for (int64_t c = 0; c < m->config.chunks; c++) {
        struct chunk *chunk = &m->chunks[c];

        chunk->first = model_chunk_first(at->pp, c);
        chunk->last = model_chunk_last(&m->config, &m->parallel->layout, at->pp, c);
        chunk->slot_count = slots[c];
        chunk->slots = calloc((size_t)slots[c], sizeof(*chunk->slots));
        if (!chunk->slots)
            return error_set(err, "out of memory");
        for (int i = 0; i < slots[c]; i++) {
            chunk->slots[i].layers =
                calloc((size_t)m->sizes.layers, sizeof(*chunk->slots[i].layers));
            if (!chunk->slots[i].layers)
                return error_set(err, "out of memory");
        }
    }
    return 0;
}

static void destroy_chunks(struct model *m)
{
    for (int64_t c = 0; m->chunks && c < m->config.chunks; c++) {
        for (int i = 0; m->chunks[c].slots && i < m->chunks[c].slot_count; i++)
            free(m->chunks[c].slots[i].layers);
        free(m->chunks[c].slots);
    }
    free(m->chunks);
}

struct model *model_create_shell(const struct model_config *config, const struct parallel *parallel,
                                 const int *slots, struct error *err)
{
    struct model *m = calloc(1, sizeof(*m));

    if (!m) {
        error_set(err, "out of memory");
        return NULL;
    }
    m->config = *config;
    m->parallel = parallel;
    m->sizes = model_sizes(config, &parallel->layout);
    if (parameters_create(&m->parameters, config, &parallel->layout, &parallel->at, err) < 0 ||
        create_chunks(m, &parallel->at, slots, err) < 0) {
        model_destroy(m);
        return NULL;
    }
    return m;
}

int model_plan_memory(const struct model_config *config, const struct layout *layout,
                      const struct layout_position *at, const int *slots,
                      struct model_memory *memory, struct error *err)
{
    struct parallel parallel = {.layout = *layout, .at = *at};
    struct model *m = model_create_shell(config, &parallel, slots, err);
    size_t shard;

    if (!m)
        return -1;
    shard = (size_t)m->parameters.shard_elements * sizeof(float);
    memory->weights = (size_t)m->parameters.elements * type_size(config->type);
    memory->gradients = (size_t)m->parameters.elements * sizeof(float);
    /* Two moments, and master weights where the weights themselves are not fp32. */
    memory->optimizer = (config->type == TYPE_FP32 ? 2 : 3) * shard;
    memory->activations = model_place(m, NULL);
    model_destroy(m);
    return 0;
}

static double rotation(const struct model_config *c, int64_t rotary, int64_t i)
{
    const struct rope_scaling *s = &c->rope_scaling;
    double frequency = pow(c->shape.rotary_base, -2.0 * (double)i / (double)rotary);
    double length = 2 * M_PI / frequency, smooth;

    if (!s->used || length < s->original / s->high)
        return frequency;
    if (length > s->original / s->low)
        return frequency / s->factor;
    smooth = (s->original / length - s->low) / (s->high - s->low);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

static int upload(struct model *m, void *to, const void *from, size_t bytes, struct error *err)
{
    void *host = device_host_allocate(m->device, bytes, err);
    int rc;

    if (!host)
        return -1;
    memcpy(host, from, bytes);
    device_copy(m->compute, to, host, bytes, COPY_TO_DEVICE);
    rc = device_stream_wait(m->compute, 600, err);
    device_host_release(m->device, host);
    return rc;
}

static int upload_rotations(struct model *m, struct error *err)
{
    int64_t half = m->sizes.rotary / 2, count = m->config.positions * half;
    float *table;
    int rc = 0;

    if (m->config.position != POSITION_ROPE)
        return 0;
    table = malloc((size_t)count * sizeof(*table));
    if (!table)
        return error_set(err, "out of memory");
    for (int which = 0; which < 2 && rc == 0; which++) {
        for (int64_t i = 0; i < count; i++) {
            double angle = (double)(i / half) * rotation(&m->config, m->sizes.rotary, i % half);

            table[i] = (float)(which ? sin(angle) : cos(angle));
        }
        rc = upload(m, which ? m->sine : m->cosine, table, (size_t)count * sizeof(*table), err);
    }
    free(table);
    return rc;
}

/* Gathered keys and values come as (rank, sample, piece, row); wanted is (sample, position). */
static int upload_orders(struct model *m, struct error *err)
{
    const struct model_sizes *z = &m->sizes;
    int64_t cp = m->parallel->layout.cp, all = z->rows * cp, sequence = m->config.shape.sequence;
    struct zigzag split = zigzag_split(sequence, cp);
    int32_t *order;
    int rc;

    if (z->slices == 1)
        return 0;
    order = malloc((size_t)all * 3 * sizeof(*order));
    if (!order)
        return error_set(err, "out of memory");
    for (int64_t i = 0; i < all; i++) {
        int64_t sample = i % z->rows / z->sequence;
        int64_t position = zigzag_position(&split, i / z->rows, i % z->sequence);

        order[i] = (int32_t)i;
        order[all + sample * sequence + position] = (int32_t)i;
        order[2 * all + i] = (int32_t)(sample * sequence + position);
    }
    rc = upload(m, m->kv_identity, order, (size_t)z->rows * sizeof(*order), err);
    if (rc == 0)
        rc = upload(m, m->kv_by_position, order + all, (size_t)all * sizeof(*order), err);
    if (rc == 0)
        rc = upload(m, m->kv_by_rank, order + 2 * all, (size_t)all * sizeof(*order), err);
    free(order);
    return rc;
}

static int create_arenas(struct model *m, struct error *err)
{
    const struct parameters *p = &m->parameters;
    size_t bytes = model_place(m, NULL);

    m->weights = device_allocate(m->device, (size_t)p->elements * type_size(m->config.type), err);
    if (!m->weights)
        return error_prefix(err, "weights");
    m->gradients = device_allocate(m->device, (size_t)p->elements * sizeof(float), err);
    if (!m->gradients)
        return error_prefix(err, "gradients");
    m->activations = device_allocate(m->device, bytes, err);
    if (!m->activations)
        return error_prefix(err, "activations");
    model_place(m, m->activations);
    return 0;
}

/* Padding between tensors is reduced and optimized with them: it must be 0 and stay so. */
static int clear_arenas(struct model *m, struct error *err)
{
    struct operation op = {.kind = OPERATION_FILL, .fill = {m->parameters.elements, TYPE_FP32, 0}};
    struct device_plan *plan = plan_create(m->device, &op, err), *other;
    int rc;

    if (!plan)
        return -1;
    op.fill.type = m->config.type;
    other = plan_create(m->device, &op, err);
    if (!other) {
        plan_destroy(plan);
        return -1;
    }
    run_fill(plan, m->compute, &(struct fill_operands){m->gradients});
    run_fill(other, m->compute, &(struct fill_operands){m->weights});
    rc = device_stream_wait(m->compute, 600, err);
    plan_destroy(plan);
    plan_destroy(other);
    return rc;
}

struct model *model_create(const struct model_config *config, const struct parallel *parallel,
                           struct device *device, const int *slots, struct error *err)
{
    struct model *m = model_create_shell(config, parallel, slots, err);

    if (!m)
        return NULL;
    m->device = device;
    m->compute = device_stream_create(device, 0, err);
    m->side = m->compute ? device_stream_create(device, 1, err) : NULL;
    m->compute_mark = m->side ? device_event_create(device, 0, err) : NULL;
    m->side_mark = m->compute_mark ? device_event_create(device, 0, err) : NULL;
    if (!m->side_mark || create_arenas(m, err) < 0 || clear_arenas(m, err) < 0 ||
        model_create_cache(m, err) < 0 || upload_rotations(m, err) < 0 ||
        upload_orders(m, err) < 0 || model_create_plans(m, err) < 0) {
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
    model_destroy_plans(m);
    if (!m->base) {
        device_event_destroy(m->compute_mark);
        device_event_destroy(m->side_mark);
        device_stream_destroy(m->compute);
        device_stream_destroy(m->side);
    }
    if (m->device && !m->base) {
        device_release(m->device, m->weights);
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
    struct operation op = {.kind = OPERATION_FILL};
    struct device_plan *plan;
    float *out = m->gradients + p->offset;
    int rc;

    rows = rows < 0 ? 0 : rows < p->rows ? rows : p->rows;
    if (rows == 0 || (p->deviation == 0 && p->start == 0))
        return 0;
    if (p->deviation == 0) {
        op.fill = (struct fill_shape){rows * p->cols, TYPE_FP32, p->start};
    } else {
        op.kind = OPERATION_NORMAL;
        op.normal = (struct normal_shape){rows,         p->cols,     p->first_row,
                                          p->first_col, p->all_cols, p->deviation};
    }
    plan = plan_create(m->device, &op, err);
    if (!plan)
        return -1;
    if (p->deviation == 0)
        run_fill(plan, m->compute, &(struct fill_operands){out});
    else
        run_normal(plan, m->compute, &(struct normal_operands){out, m->config.seed, p->purpose});
    rc = device_stream_wait(m->compute, 600, err);
    plan_destroy(plan);
    return rc;
}

int model_adopt(struct model *m, struct error *err)
{
    struct operation op = {.kind = OPERATION_CONVERT,
                           .convert = {m->parameters.elements, TYPE_FP32, m->config.type}};
    struct device_plan *plan = plan_create(m->device, &op, err);
    int rc;

    if (!plan)
        return -1;
    run_convert(plan, m->compute, &(struct convert_operands){m->gradients, m->weights});
    rc = device_stream_wait(m->compute, 600, err);
    plan_destroy(plan);
    return rc;
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

void *model_staged(struct model *model, int i)
{
    return model->staged[i];
}

void *model_input(struct model *model)
{
    return model->scratch.arrived;
}

void *model_output(struct model *model, int chunk, int slot)
{
    struct chunk *c = &model->chunks[chunk];

    return c->last ? NULL : c->slots[slot].sum_out;
}

void *model_input_gradient(struct model *model, int chunk, int slot)
{
    struct chunk *c = &model->chunks[chunk];

    return c->first ? NULL : c->slots[slot].gradient;
}

void *model_output_gradient(struct model *model)
{
    return model->scratch.arrived_gradient;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "muon.h"
#include "base/core/xmalloc.h"
#include "engine/device/plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Matrices of one shape share plans. */
struct shape {
    int64_t rows, cols;         /* on this rank */
    int64_t all_rows, all_cols; /* that are orthogonalized together */
    struct newton_schulz *newton_schulz;
    struct device_plan *clear;            /* this rank's part */
    struct device_plan *insert, *extract; /* columns of a part; NULL: it is a range of rows */
};

struct matrix {
    int bucket, shape;
    int64_t offset; /* in the arenas */
    int owner;      /* the shard whose rank orthogonalizes it */
};

/* The matrices of a rank. */
struct list {
    struct matrix *matrices;
    struct shape *shapes;
    int count, shape_count;
};

struct muon {
    struct muon_config config;
    const struct parameters *parameters;
    const struct parallel *parallel;
    struct device *device;
    float *gradients;
    int shard; /* number of this rank's shards */
    struct list list;
    struct plans plans;
    char *memory;
    float *whole;                                    /* a matrix of all tensor-parallel ranks */
    float *parts;                                    /* their parts, if these are columns */
    int32_t *index;                                  /* 0, 1, 2, ...: all rows */
    void *space;                                     /* of Newton-Schulz iterations */
    struct device_event *ready, **arrived, **spread; /* per bucket */
};

static int ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);

    return length >= tail && strcmp(name + length - tail, end) == 0;
}

int muon_has(const struct parameters *p, int tensor)
{
    const struct tensor *t = &p->tensors[tensor];
    const struct parameter *first = &p->list[t->first];

    if (tensor == p->word || tensor == p->head || t->class == CLASS_TIED)
        return 0;
    return first->all_rows > 1 && first->all_cols > 1 &&
           strncmp(first->name, "embedding.", 10) != 0;
}

/* --- The matrices of a rank ------------------------------------------------------------------ */

static int shape_of(struct list *list, const struct shape *wanted)
{
    int i = 0;

    for (; i < list->shape_count; i++) {
        const struct shape *s = &list->shapes[i];

        if (s->rows == wanted->rows && s->cols == wanted->cols && s->all_rows == wanted->all_rows &&
            s->all_cols == wanted->all_cols)
            return i;
    }
    list->shapes[list->shape_count++] = *wanted;
    return i;
}

/* Parameters first .. first + pieces - 1 of a tensor are one matrix. */
static void add_matrix(struct list *list, const struct muon_config *config,
                       const struct parameters *p, int first, int pieces)
{
    const struct parameter *q = &p->list[first];
    struct shape shape = {.cols = q->cols, .all_cols = q->all_cols};

    for (int i = 0; i < pieces; i++) {
        shape.rows += q[i].rows;
        shape.all_rows += q[i].all_rows;
    }
    if (config->blockwise) {
        shape.all_rows = shape.rows;
        shape.all_cols = shape.cols;
    }
    list->matrices[list->count++] =
        (struct matrix){p->tensors[q->tensor].bucket, shape_of(list, &shape), q->offset, 0};
}

/* Products of one step: A, A A, and the one with X. */
static double cost_of(const struct shape *s)
{
    double rows = (double)s->all_rows, cols = (double)s->all_cols, side = fmin(rows, cols);

    return side * side * (2 * fmax(rows, cols) + side);
}

/* Each matrix goes to the rank with the least work so far; all ranks get the same result. */
static void choose_owners(struct list *list, const struct parameters *p, double *work)
{
    for (int i = 0; i < list->count; i++) {
        struct matrix *m = &list->matrices[i];
        int shards = p->buckets[m->bucket].shards;

        for (int s = 1; s < shards; s++)
            if (work[s] < work[m->owner])
                m->owner = s;
        work[m->owner] += cost_of(&list->shapes[m->shape]);
    }
}

static void create_list(struct list *list, const struct muon_config *config,
                        const struct parameters *p)
{
    int shards = 1;
    double *work;

    for (int i = 0; i < p->bucket_count; i++)
        shards = p->buckets[i].shards > shards ? p->buckets[i].shards : shards;
    list->matrices = xcalloc((size_t)p->count + 1, sizeof(*list->matrices));
    list->shapes = xcalloc((size_t)p->count + 1, sizeof(*list->shapes));
    work = xcalloc((size_t)shards, sizeof(*work));
    for (int t = 0; t < p->tensor_count; t++) {
        const struct tensor *tensor = &p->tensors[t];
        int split = config->split_qkv && ends_with(p->list[tensor->first].name, ".query.weight");

        for (int i = 0; muon_has(p, t) && i < (split ? tensor->pieces : 1); i++)
            add_matrix(list, config, p, tensor->first + i, split ? 1 : tensor->pieces);
    }
    choose_owners(list, p, work);
    free(work);
}

static void destroy_list(struct list *list)
{
    for (int i = 0; i < list->shape_count; i++)
        newton_schulz_destroy(list->shapes[i].newton_schulz);
    free(list->matrices);
    free(list->shapes);
}

/* --- Memory and plans ------------------------------------------------------------------------ */

static int is_divided(const struct shape *s)
{
    return s->rows != s->all_rows || s->cols != s->all_cols;
}

/* The sizes of the largest matrix of each kind. */
struct sizes {
    int64_t whole, parts, rows; /* elements */
    size_t space;               /* bytes */
};

static size_t aligned(size_t bytes)
{
    return (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
}

static struct sizes sizes_of(const struct list *list, enum device_type type)
{
    struct sizes z = {0};

    for (int i = 0; i < list->shape_count; i++) {
        const struct shape *s = &list->shapes[i];
        int64_t all = s->all_rows * s->all_cols;
        size_t space = newton_schulz_space(s->all_rows, s->all_cols, type);

        z.space = space > z.space ? space : z.space;
        if (is_divided(s) && all > z.whole)
            z.whole = all;
        if (s->cols != s->all_cols && all > z.parts)
            z.parts = all;
        if (s->cols != s->all_cols && s->rows > z.rows)
            z.rows = s->rows;
    }
    return z;
}

static size_t lay_out(struct muon *muon, const struct sizes *z)
{
    char *base = muon->memory;
    size_t whole = aligned((size_t)z->whole * sizeof(float));
    size_t parts = aligned((size_t)z->parts * sizeof(float));
    size_t rows = aligned((size_t)z->rows * sizeof(int32_t));

    if (base) {
        muon->whole = (float *)base;
        muon->parts = (float *)(base + whole);
        muon->index = (int32_t *)(base + whole + parts);
        muon->space = base + whole + parts + rows;
    }
    return whole + parts + rows + z->space;
}

size_t muon_memory(const struct muon_config *config, const struct parameters *parameters,
                   enum device_type type)
{
    struct muon only_counts = {0};
    struct list list = {0};
    struct sizes z = {0};

    create_list(&list, config, parameters);
    z = sizes_of(&list, type);
    destroy_list(&list);
    return lay_out(&only_counts, &z);
}

/* The numbers of rows, for operations that take any rows. */
static int fill_index(struct muon *muon, int64_t rows, struct device_stream *stream,
                      struct error *err)
{
    size_t bytes = (size_t)rows * sizeof(int32_t);
    int32_t *host = rows > 0 ? device_host_allocate(muon->device, bytes, err) : NULL;
    int rc;

    if (rows == 0)
        return 0;
    if (!host)
        return -1;
    for (int64_t i = 0; i < rows; i++)
        host[i] = (int32_t)i;
    device_copy(stream, muon->index, host, bytes, COPY_TO_DEVICE);
    rc = device_stream_wait(stream, 600, err);
    device_host_release(muon->device, host);
    return rc;
}

static double scale_of(const struct muon_config *c, const struct shape *s)
{
    double rows = (double)s->all_rows, cols = (double)s->all_cols;

    switch (c->scale) {
    case MUON_UNIT_RMS_NORM:
        return c->extra_scale * sqrt(rows / cols);
    case MUON_SHAPE_SCALING:
        return c->extra_scale * sqrt(fmax(1, rows / cols));
    default:
        return c->extra_scale * sqrt(fmax(rows, cols));
    }
}

static void create_plans(struct planner *p, const struct muon *muon, struct shape *s,
                         enum device_type type)
{
    struct operation clear = {.kind = OPERATION_FILL, .fill = {s->rows * s->cols, TYPE_FP32, 0}};
    struct operation move = {.kind = OPERATION_GATHER_ROWS,
                             .gather_rows = {s->rows, s->cols, TYPE_FP32, 0, s->all_cols, 0}};

    s->newton_schulz = newton_schulz_create(p, &muon->config.rule, s->all_rows, s->all_cols, type,
                                            scale_of(&muon->config, s));
    s->clear = plan_make(p, &clear);
    if (s->cols == s->all_cols)
        return;
    s->insert = plan_make(p, &move);
    move.gather_rows.x_stride = s->all_cols;
    move.gather_rows.out_stride = 0;
    s->extract = plan_make(p, &move);
}

static void create_events(struct muon *muon)
{
    size_t count = (size_t)muon->parameters->bucket_count;

    muon->ready = device_event_create(muon->device, 0);
    muon->arrived = xcalloc(count, sizeof(struct device_event *));
    muon->spread = xcalloc(count, sizeof(struct device_event *));
    for (size_t i = 0; i < count; i++) {
        muon->arrived[i] = device_event_create(muon->device, 0);
        muon->spread[i] = device_event_create(muon->device, 0);
    }
}

static int create_all(struct muon *muon, struct device_stream *stream, struct error *err)
{
    enum device_type type =
        !muon->config.fp32 && device_supports(muon->device, TYPE_BF16) ? TYPE_BF16 : TYPE_FP32;
    struct planner p = {.plans = &muon->plans, .err = err};
    struct sizes z;

    create_list(&muon->list, &muon->config, muon->parameters);
    z = sizes_of(&muon->list, type);
    muon->memory = device_allocate(muon->device, lay_out(muon, &z), err);
    if (!muon->memory)
        return error_prefix(err, "optimizer");
    lay_out(muon, &z);
    for (int i = 0; i < muon->list.shape_count; i++)
        create_plans(&p, muon, &muon->list.shapes[i], type);
    create_events(muon);
    return p.failed ? -1 : fill_index(muon, z.rows, stream, err);
}

struct muon *muon_create(const struct muon_config *config, struct model *model,
                         const struct parallel *parallel, struct device *device, struct error *err)
{
    const struct model_facts facts = model_facts(model);
    struct muon *muon = xcalloc(1, sizeof(*muon));

    muon->config = *config;
    muon->parameters = facts.parameters;
    muon->parallel = parallel;
    muon->device = muon->plans.device = device;
    muon->gradients = facts.gradients;
    muon->shard = (int)shard_number(&parallel->layout, &parallel->at);
    if (create_all(muon, facts.stream, err) < 0) {
        muon_destroy(muon);
        return NULL;
    }
    return muon;
}

void muon_destroy(struct muon *muon)
{
    if (!muon)
        return;
    for (int i = 0; i < muon->parameters->bucket_count; i++) {
        device_event_destroy(muon->arrived ? muon->arrived[i] : NULL);
        device_event_destroy(muon->spread ? muon->spread[i] : NULL);
    }
    device_event_destroy(muon->ready);
    free(muon->arrived);
    free(muon->spread);
    destroy_list(&muon->list);
    plans_destroy(&muon->plans);
    device_release(muon->device, muon->memory);
    free(muon);
}

/* --- Steps ----------------------------------------------------------------------------------- */

/* All parts of a matrix to every tensor-parallel rank, in muon->whole. */
static void gather_parts(struct muon *muon, const struct shape *s, struct device_stream *stream,
                         const float *part)
{
    int64_t count = s->rows * s->cols, tp = muon->parallel->layout.tp;
    int rows = s->cols == s->all_cols;

    comm_all_gather(muon->parallel->shared, stream, part, rows ? muon->whole : muon->parts,
                    (size_t)count, TYPE_FP32);
    for (int64_t i = 0; i < tp && !rows; i++)
        run_gather_rows(s->insert, stream,
                        &(struct gather_rows_operands){muon->parts + i * count, muon->index,
                                                       muon->whole + i * s->cols});
}

static void take_part(struct muon *muon, const struct shape *s, struct device_stream *stream,
                      float *part)
{
    int64_t count = s->rows * s->cols, tp = muon->parallel->at.tp;

    if (s->cols == s->all_cols)
        device_copy(stream, part, muon->whole + tp * count, (size_t)count * sizeof(float),
                    COPY_ON_DEVICE);
    else
        run_gather_rows(
            s->extract, stream,
            &(struct gather_rows_operands){muon->whole + tp * s->cols, muon->index, part});
}

static void orthogonalize(struct muon *muon, const struct matrix *m, struct device_stream *stream)
{
    const struct shape *s = &muon->list.shapes[m->shape];
    float *x = muon->gradients + m->offset;

    if (m->owner != muon->shard) {
        run_fill(s->clear, stream, &(struct fill_operands){x});
        return;
    }
    if (is_divided(s))
        gather_parts(muon, s, stream, x);
    newton_schulz_run(s->newton_schulz, stream, is_divided(s) ? muon->whole : x, muon->space);
    if (is_divided(s))
        take_part(muon, s, stream, x);
}

static void gather_bucket(struct muon *muon, int number, struct device_stream *side)
{
    const struct bucket *bucket = &muon->parameters->buckets[number];
    struct range own = bucket_shard(bucket, muon->shard);

    comm_all_gather(muon->parallel->data, side, muon->gradients + own.first,
                    muon->gradients + bucket->first, (size_t)own.count, TYPE_FP32);
    device_event_record(muon->arrived[number], side);
}

/* One rank has the update of each matrix, the others have 0: the sum is the update. */
static void scatter_bucket(struct muon *muon, int number, struct device_stream *stream,
                           struct device_stream *side)
{
    const struct bucket *bucket = &muon->parameters->buckets[number];
    struct range own = bucket_shard(bucket, muon->shard);

    device_event_record(muon->ready, stream);
    device_event_follow(side, muon->ready);
    comm_reduce_scatter(muon->parallel->data, side, muon->gradients + bucket->first,
                        muon->gradients + own.first, (size_t)own.count, TYPE_FP32);
    device_event_record(muon->spread[number], side);
}

void muon_orthogonalize(struct muon *muon, struct device_stream *stream, struct device_stream *side)
{
    const struct parameters *p = muon->parameters;

    device_event_record(muon->ready, stream);
    device_event_follow(side, muon->ready);
    for (int b = 0; b < p->bucket_count; b++)
        if (p->buckets[b].shards > 1)
            gather_bucket(muon, b, side);
    for (int b = 0; b < p->bucket_count; b++) {
        if (p->buckets[b].shards > 1)
            device_event_follow(stream, muon->arrived[b]);
        for (int i = 0; i < muon->list.count; i++)
            if (muon->list.matrices[i].bucket == b)
                orthogonalize(muon, &muon->list.matrices[i], stream);
        if (p->buckets[b].shards > 1)
            scatter_bucket(muon, b, stream, side);
    }
    for (int b = 0; b < p->bucket_count; b++)
        if (p->buckets[b].shards > 1)
            device_event_follow(stream, muon->spread[b]);
}

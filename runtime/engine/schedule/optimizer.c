/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer_private.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct state_types optimizer_types(const struct optimizer_config *config, enum device_type type)
{
    return (struct state_types){.master = (type != TYPE_FP32 || config->gather) && !config->half,
                                .moment1 = config->moment1,
                                .moment2 = config->moment2};
}

static void create_gathering(struct optimizer *o)
{
    size_t count = (size_t)o->parameters->bucket_count;

    o->gathered = xcalloc(count, sizeof(struct device_event *));
    o->gathering = xcalloc(count, 1);
    for (size_t i = 0; i < count; i++)
        if (o->parameters->buckets[i].shards > 1)
            o->gathered[i] = device_event_create(o->device, 0);
}

static void settle_bucket(struct optimizer *o, int i)
{
    if (o->gathering[i])
        device_event_follow(o->stream, o->gathered[i]);
    o->gathering[i] = 0;
}

/* A layer's weights are about to be read: its bucket must have been gathered. */
static void use_layer(void *context, int chunk, int64_t layer)
{
    struct optimizer *o = context;

    for (int i = 0; i < o->parameters->bucket_count; i++)
        if (o->parameters->buckets[i].chunk == chunk && o->parameters->buckets[i].layer <= layer)
            settle_bucket(o, i);
}

int optimizer_gathers(const struct optimizer *o)
{
    for (int i = 0; i < o->parameters->bucket_count; i++)
        if (o->gathering[i])
            return 1;
    return 0;
}

void optimizer_settle(struct optimizer *o)
{
    for (int i = 0; i < o->parameters->bucket_count; i++)
        settle_bucket(o, i);
}

struct optimizer *optimizer_create(const struct optimizer_config *config, struct model *model,
                                   const struct parallel *parallel, struct device *device,
                                   enum device_type type, struct error *err)
{
    struct optimizer *o = xcalloc(1, sizeof(*o));
    const struct state_types types = optimizer_types(config, type);
    bool muon = config->rules.optimizer == OPTIMIZER_MUON;

    o->config = *config;
    o->model = model;
    o->facts = model_facts(model);
    o->parameters = o->facts.parameters;
    o->parallel = parallel;
    o->device = o->plans.device = device;
    o->type = type;
    o->rank = shard_number(&parallel->layout, &parallel->at);
    o->stream = o->facts.stream;
    o->reduce_stream = device_stream_create(device, 1);
    o->ready = device_event_create(device, 0);
    o->reduced = device_event_create(device, 0);
    create_gathering(o);
    model_on_use(model, use_layer, o);
    if (optimizer_state_create(&o->state, device, o->parameters->shard_elements, &types,
                               config->offload, err) < 0 ||
        optimizer_create_plans(o, err) < 0)
        goto fail;
    if (muon && !(o->muon = muon_create(&config->muon, model, parallel, device, err)))
        goto fail;
    return o;
fail:
    optimizer_destroy(o);
    return NULL;
}

void optimizer_destroy(struct optimizer *o)
{
    if (!o)
        return;
    muon_destroy(o->muon);
    optimizer_destroy_plans(o);
    for (int i = 0; o->gathered && i < o->parameters->bucket_count; i++)
        device_event_destroy(o->gathered[i]);
    model_on_use(o->model, NULL, NULL);
    device_event_destroy(o->ready);
    device_event_destroy(o->reduced);
    device_stream_destroy(o->reduce_stream);
    optimizer_state_destroy(&o->state);
    free(o->gathered);
    free(o->gathering);
    free(o);
}

const struct optimizer_state *optimizer_state(const struct optimizer *optimizer)
{
    return &optimizer->state;
}

int optimizer_start(struct optimizer *o, const struct step_state *resumed, uint64_t seed,
                    struct error *err)
{
    struct step_state *host = device_host_allocate(o->device, sizeof(*host), err);
    int rc;

    if (!host)
        return -1;
    if (resumed)
        *host = *resumed;
    else
        *host = (struct step_state){.loss_scale = (float)o->config.initial_scale,
                                    .hysteresis = o->config.rules.hysteresis};
    host->seed = seed;
    step_state_refresh(host, &o->config.rules);
    device_copy(o->stream, o->facts.state, host, sizeof(*host), COPY_TO_DEVICE);
    for (int i = 0; i < o->parameters->bucket_count && o->state.types.master; i++) {
        const struct bucket *bucket = &o->parameters->buckets[i];

        optimizer_state_set_master(&o->state, o->stream, bucket->shard_first,
                                   o->facts.start_weights + shard_of(o, bucket).first,
                                   shard_of(o, bucket).count);
    }
    rc = device_stream_wait(o->stream, 600, err);
    device_host_release(o->device, host);
    if (rc < 0 || model_start(o->model, err) < 0)
        return -1;
    if (resumed)
        return 0;
    return optimizer_state_clear(&o->state, o->stream, err);
}

void optimizer_phase(struct optimizer *o, enum step_phase phase)
{
    run_step(o->phases[phase], o->stream, &(struct step_operands){o->facts.state});
}

/* Each tensor-parallel rank has gradients of replicated parameters from its own rows only. */
static void reduce_shared(struct optimizer *o, const struct bucket *bucket)
{
    int64_t first = bucket->class_first[CLASS_SHARED];
    int64_t count = bucket->class_size[CLASS_SHARED] + bucket->class_size[CLASS_SHARED_RAW];

    if (o->parallel->layout.tp > 1 && count > 0)
        comm_all_reduce(o->parallel->shared, o->reduce_stream,
                        gradient_at(o, bucket->first + first), (size_t)count,
                        o->facts.gradient_type, COMM_SUM);
}

/* The tensor whose gradient is summed over the first and the last stage; -1 on other stages. */
static int tied_tensor(const struct optimizer *o)
{
    const struct parameters *p = o->parameters;

    if (!o->config.tied || o->parallel->embedding->size < 2)
        return -1;
    return p->head >= 0 ? p->head : p->word;
}

static void reduce_bucket(struct optimizer *o, const struct bucket *bucket)
{
    reduce_shared(o, bucket);
    if (bucket->shards > 1)
        comm_reduce_scatter(o->parallel->data, o->reduce_stream, gradient_at(o, bucket->first),
                            gradient_at(o, shard_of(o, bucket).first),
                            (size_t)shard_of(o, bucket).count, o->facts.gradient_type);
}

/* The gradients of bucket i are complete: those of its vectors join the others. */
static void round_vectors(struct optimizer *o, int i)
{
    const struct bucket *bucket = &o->parameters->buckets[i];

    if (o->round[i] && !o->rounded[i])
        run_convert(o->round[i], o->stream,
                    &(struct convert_operands){o->facts.vectors + bucket->vectors,
                                               gradient_at(o, bucket_vectors(bucket).first)});
    o->rounded[i] = 1;
}

int optimizer_overlaps(const struct optimizer *o)
{
    return o->parallel->data->size > 1 || o->parallel->layout.tp > 1;
}

void optimizer_reduce(struct optimizer *o, int chunk, int64_t layer)
{
    int tied = tied_tensor(o);

    for (int i = 0; i < o->parameters->bucket_count; i++) {
        const struct bucket *bucket = &o->parameters->buckets[i];

        if (bucket->chunk != chunk || bucket->layer != layer)
            continue;
        /* The tied tensor needs the other end of the pipeline, so it is reduced after all passes.
         */
        if (tied >= 0 && o->parameters->tensors[tied].bucket == i)
            continue;
        round_vectors(o, i);
        device_event_record(o->ready, o->stream);
        device_event_follow(o->reduce_stream, o->ready);
        reduce_bucket(o, bucket);
    }
}

static void reduce_tied(struct optimizer *o)
{
    int tied = tied_tensor(o);
    const struct tensor *tensor;

    if (tied < 0)
        return;
    tensor = &o->parameters->tensors[tied];
    comm_all_reduce(o->parallel->embedding, o->reduce_stream, gradient_at(o, tensor->offset),
                    (size_t)tensor->elements, o->facts.gradient_type, COMM_SUM);
    reduce_bucket(o, &o->parameters->buckets[tensor->bucket]);
}

void optimizer_hold(struct optimizer *o, struct device_event *event)
{
    o->held = event;
}

/* Weights in fp8 from the master weights of an update, or only their amaxes. */
static void cast_slices(struct optimizer *o, const struct update *u, const float *master,
                        int only_amax)
{
    for (int i = u->slice; i < u->slice + u->slices; i++) {
        const struct slice *slice = &o->slices[i];

        model_cast(o->model, slice->cast, slice->tensor, slice->inside, master + slice->first,
                   only_amax);
    }
}

static void run_update(struct optimizer *o, const struct update *u, int orthogonal)
{
    const struct bucket *bucket = &o->parameters->buckets[u->bucket];
    int64_t at = shard_of(o, bucket).first + u->first, own = bucket->shard_first + u->first;
    char *mine = (char *)o->facts.weights + bucket_weight(bucket, at);
    int which = u->way != WAY_MUON ? STATE_ALL : orthogonal ? STATE_MASTER : STATE_MOMENT1;
    struct offload_arrays s;
    float *master;

    if (orthogonal && u->way != WAY_MUON)
        return;
    s = optimizer_state_use(&o->state, o->stream, own, u->count, which);
    master = s.master;
    if (o->type == TYPE_FP32 && !o->config.gather)
        master = (float *)mine;
    if ((float *)mine == master || bucket->type != o->type)
        mine = NULL;
    if (u->way == WAY_MUON)
        run_muon(orthogonal ? u->plan : u->momentum, o->stream,
                 &(struct muon_operands){.x = gradient_at(o, at),
                                         .moment = s.moment1,
                                         .master = master,
                                         .weights = mine,
                                         .state = o->facts.state});
    else
        run_adam(u->plan, o->stream,
                 &(struct adam_operands){.grad = gradient_at(o, at),
                                         .master = master,
                                         .moment1 = s.moment1,
                                         .moment2 = s.moment2,
                                         .weights = mine,
                                         .state = o->facts.state});
    if (which & STATE_MASTER)
        cast_slices(o, u, master, o->facts.casts_late);
    optimizer_state_done(&o->state, o->stream, own, u->count, which);
}

/* Update the elements of this rank's shard of bucket 'number'; 'next' is its first update. Muon
 * does it in two parts, before and after its matrices are 'orthogonal'. */
static void update_shard(struct optimizer *o, int number, int *next, int orthogonal)
{
    for (; *next < o->update_count && o->updates[*next].bucket == number; ++*next)
        run_update(o, &o->updates[*next], orthogonal);
}

static void update_matrices(struct optimizer *o)
{
    for (int i = 0, next = 0; i < o->parameters->bucket_count; i++)
        update_shard(o, i, &next, 0);
    muon_orthogonalize(o->muon, o->stream, o->reduce_stream);
}

/* Start to gather the weights of a bucket, whose shard is complete. */
static void gather(struct optimizer *o, int i)
{
    const struct bucket *bucket = &o->parameters->buckets[i];
    struct range own = shard_of(o, bucket);
    char *weights = o->facts.weights;

    if (bucket->shards == 1)
        return;
    device_event_record(o->ready, o->stream);
    device_event_follow(o->reduce_stream, o->ready);
    comm_all_gather(o->parallel->data, o->reduce_stream, weights + bucket_weight(bucket, own.first),
                    weights + bucket->weights, (size_t)own.count, bucket->type);
    device_event_record(o->gathered[i], o->reduce_stream);
    o->gathering[i] = 1;
}

/* Weights in fp8 whose scales depend on the shards of all ranks, then all buckets are gathered:
 * before that nothing else may use the group. */
static void cast_late(struct optimizer *o)
{
    int next = 0;

    model_weight_scales(o->model);
    offload_begin(o->state.offload);
    for (int i = 0; i < o->parameters->bucket_count; i++) {
        const struct bucket *bucket = &o->parameters->buckets[i];

        for (; next < o->update_count && o->updates[next].bucket == i; next++) {
            const struct update *u = &o->updates[next];
            int64_t own = bucket->shard_first + u->first;

            if (u->slices == 0)
                continue;
            cast_slices(
                o, u, optimizer_state_use(&o->state, o->stream, own, u->count, STATE_MASTER).master,
                0);
            optimizer_state_done(&o->state, o->stream, own, u->count, 0);
        }
        gather(o, i);
    }
    offload_settle(o->state.offload, o->stream);
}

static void update(struct optimizer *o)
{
    int late = o->facts.casts_late, next = 0;

    if (o->held)
        device_event_follow(o->stream, o->held);
    o->held = NULL;
    if (!late)
        model_weight_scales(o->model);
    offload_begin(o->state.offload);
    if (o->muon)
        update_matrices(o);
    for (int i = 0; i < o->parameters->bucket_count; i++) {
        update_shard(o, i, &next, o->muon != NULL);
        if (!late)
            gather(o, i);
    }
    offload_settle(o->state.offload, o->stream);
    if (late)
        cast_late(o);
}

_Static_assert(offsetof(struct step_state, norm_squared) ==
                   offsetof(struct step_state, tokens) + STEP_LOSSES * sizeof(double),
               "STEP_LOSSES must count all losses of a step");

void optimizer_finish(struct optimizer *o)
{
    struct step_state *state = o->facts.state;

    for (int i = 0; i < o->parameters->bucket_count; i++)
        round_vectors(o, i);
    memset(o->rounded, 0, (size_t)o->parameters->bucket_count);
    device_event_record(o->ready, o->stream);
    device_event_follow(o->reduce_stream, o->ready);
    reduce_tied(o);
    device_event_record(o->reduced, o->reduce_stream);
    device_event_follow(o->stream, o->reduced);
    for (int i = 0; i < o->segment_count; i++)
        run_square_sum(o->segments[i].plan, o->stream,
                       &(struct square_sum_operands){gradient_at(o, o->segments[i].first),
                                                     &state->norm_squared});
    if (o->parallel->data->size > 1)
        comm_all_reduce(o->parallel->data, o->stream, &state->tokens, STEP_LOSSES, TYPE_FP64,
                        COMM_SUM);
    comm_all_reduce(o->parallel->world, o->stream, &state->norm_squared, 1, TYPE_FP64, COMM_SUM);
    model_scaling_end(o->model);
    optimizer_phase(o, STEP_CLIP);
    update(o);
    optimizer_phase(o, STEP_END);
}

int optimizer_export(struct optimizer *o, struct error *err)
{
    float *weights = o->facts.start_weights;

    optimizer_settle(o);
    for (int i = 0; i < o->parameters->bucket_count; i++) {
        const struct bucket *bucket = &o->parameters->buckets[i];
        struct range own = shard_of(o, bucket);

        optimizer_state_get_master(&o->state, o->stream, bucket->shard_first, weights + own.first,
                                   own.count);
        if (bucket->shards > 1)
            comm_all_gather(o->parallel->data, o->stream, weights + own.first,
                            weights + bucket->first, (size_t)own.count, TYPE_FP32);
    }
    return device_stream_wait(o->stream, o->parallel->comm->deadline, err);
}

/* The weights of a segment in fp32. The gradients are not needed between steps. */
static const float *weights_of(struct optimizer *o, const struct segment *segment)
{
    const char *weights = o->facts.weights;
    float *wide = gradient_at(o, segment->first); /* these gradients are fp32 */

    weights += (size_t)segment->first * type_size(o->type); /* no bucket is in fp8 */
    if (!segment->widen)
        return (const float *)weights;
    run_convert(segment->widen, o->stream, &(struct convert_operands){weights, wide});
    return wide;
}

/* Of fp32 numbers, whatever type the gradients have. */
static struct device_plan *sum_plan(const struct segment *segment)
{
    return segment->sum ? segment->sum : segment->plan;
}

void optimizer_sum_weights(struct optimizer *o)
{
    const struct segment *list = o->sums ? o->sums : o->segments;
    double *sum = &o->facts.state->norm_squared;

    optimizer_settle(o);
    optimizer_phase(o, STEP_BEGIN);
    offload_begin(o->state.offload);
    for (int i = 0; i < (o->sums ? o->sum_count : o->segment_count); i++) {
        int64_t first = list[i].shard_first, count = list[i].count;

        if (!o->state.types.master) {
            run_square_sum(sum_plan(&list[i]), o->stream,
                           &(struct square_sum_operands){weights_of(o, &list[i]), sum});
            continue;
        }
        run_square_sum(
            sum_plan(&list[i]), o->stream,
            &(struct square_sum_operands){
                optimizer_state_use(&o->state, o->stream, first, count, STATE_MASTER).master, sum});
        optimizer_state_done(&o->state, o->stream, first, count, 0);
    }
    comm_all_reduce(o->parallel->world, o->stream, sum, 1, TYPE_FP64, COMM_SUM);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of the optimizer: which elements of this rank's shards are updated in which way, and
 * which count in norms. */
#include "optimizer_private.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static void add_segment(struct planner *p, struct optimizer *o, const struct bucket *bucket,
                        int64_t first, int64_t last)
{
    struct operation op = {.kind = OPERATION_SQUARE_SUM,
                           .square_sum = {last - first, o->facts.gradient_type}};
    struct segment *segment = &o->segments[o->segment_count];

    if (last <= first)
        return;
    segment->first = first;
    segment->count = last - first;
    segment->shard_first = bucket->shard_first + first - shard_of(o, bucket).first;
    segment->plan = plan_make(p, &op);
    o->segment_count++;
    if (op.square_sum.type != TYPE_FP32) {
        op.square_sum.type = TYPE_FP32;
        segment->sum = plan_make(p, &op);
    }
    op = (struct operation){.kind = OPERATION_CONVERT,
                            .convert = {segment->count, o->type, TYPE_FP32, 0}};
    if (o->type != TYPE_FP32 && o->config.half)
        segment->widen = plan_make(p, &op);
}

/* Adjacent classes that count form one segment. */
static void plan_segments(struct planner *p, struct optimizer *o, const struct bucket *bucket)
{
    int64_t low = shard_of(o, bucket).first, high = low + shard_of(o, bucket).count, first = -1;

    for (int class = 0; class <= CLASS_COUNT; class ++) {
        int64_t at = class < CLASS_COUNT ? bucket->first + bucket->class_first[class] : high;
        int counted =
            class < CLASS_COUNT && class_is_owned((enum parameter_class) class, &o->parallel->at);

        at = clamp(at, low, high);
        if (counted && first < 0)
            first = at;
        if (!counted && first >= 0) {
            add_segment(p, o, bucket, first, at);
            first = -1;
        }
    }
}

static enum way way_of(const struct optimizer *o, int tensor)
{
    const struct parameters *p = o->parameters;

    if (o->config.rules.optimizer == OPTIMIZER_MUON && muon_has(p, tensor))
        return WAY_MUON;
    if (o->config.rules.decoupled_lr > 0 && (tensor == p->word || tensor == p->head))
        return WAY_DECOUPLED;
    return WAY_PLAIN;
}

/* How element 'at' of the arenas is updated. '*end' is lowered to where its tensor or the padding
 * before the next one ends. */
static enum way way_at(const struct optimizer *o, int64_t at, int64_t *end)
{
    for (int i = 0; i < o->parameters->tensor_count; i++) {
        const struct tensor *tensor = &o->parameters->tensors[i];

        if (at >= tensor->offset && at < tensor->offset + tensor->elements) {
            if (*end > tensor->offset + tensor->elements)
                *end = tensor->offset + tensor->elements;
            return way_of(o, i);
        }
        if (at < tensor->offset && tensor->offset < *end)
            *end = tensor->offset;
    }
    return WAY_PLAIN;
}

/* Consecutive tensors that are updated in the same way are one range. All but matrices of Muon may
 * be mixed with padding, which is 0 and stays 0. */
static enum way way_until(const struct optimizer *o, int64_t at, int64_t *end)
{
    int64_t next = *end, last = *end;
    enum way way = way_at(o, at, &next);

    for (*end = next; *end < last; *end = next) {
        next = last;
        if (way_at(o, *end, &next) != way)
            break;
    }
    return way;
}

/* The weights in fp8 among elements first .. last - 1 of an update. */
static void plan_slices(struct planner *planner, struct optimizer *o, struct update *update,
                        int64_t first, int64_t last)
{
    const struct parameters *p = o->parameters;

    update->slice = o->slice_count;
    for (int t = 0; t < p->tensor_count && p->buckets[update->bucket].type == TYPE_E4M3; t++) {
        const struct tensor *tensor = &p->tensors[t];
        struct range own = range_intersect((struct range){first, last - first},
                                           (struct range){tensor->offset, tensor->elements});
        if (own.count == 0)
            continue;
        o->slices = xrealloc(o->slices, (size_t)o->slice_count + 1, sizeof(*o->slices));
        o->slices[o->slice_count++] = (struct slice){
            .cast = model_plan_cast(planner, o->model, t, own.first - tensor->offset, own.count),
            .tensor = t,
            .first = own.first - first,
            .inside = own.first - tensor->offset};
        update->slices++;
    }
}

static void plan_update(struct planner *p, struct optimizer *o, int number, int64_t first,
                        int64_t last, enum way way)
{
    const struct bucket *bucket = &o->parameters->buckets[number];
    const struct step_rules *rules = &o->config.rules;
    int64_t count = last - first;
    int64_t decayed =
        o->config.decay_all ? count : clamp(bucket->first + bucket->decayed - first, 0, count);
    struct operation adam = {
        .kind = OPERATION_ADAM,
        .adam = {count, decayed, rules->beta1, rules->beta2, o->config.epsilon, o->type,
                 rules->optimizer == OPTIMIZER_SGD ? OPTIMIZER_SGD : OPTIMIZER_ADAM,
                 way == WAY_DECOUPLED, o->config.half, o->facts.gradient_type, o->config.moment1,
                 o->config.moment2}};
    struct operation muon = {.kind = OPERATION_MUON,
                             .muon = {count, MUON_MOMENTUM, o->config.muon.momentum,
                                      o->config.muon.nesterov, TYPE_FP32}};
    struct update *update = &o->updates[o->update_count++];

    *update = (struct update){
        .way = way, .bucket = number, .first = first - shard_of(o, bucket).first, .count = count};
    plan_slices(p, o, update, first, last);
    if (way != WAY_MUON) {
        update->plan = plan_make(p, &adam);
        return;
    }
    update->momentum = plan_make(p, &muon);
    muon.muon.part = MUON_UPDATE;
    muon.muon.type = o->type;
    update->plan = plan_make(p, &muon);
}

/* Buffers of offloaded state. */
static int64_t buffers_of(const struct optimizer *o)
{
    int64_t hosted = o->state.hosted;

    return hosted > 0 ? hosted / offload_buffer_elements(hosted) : 0;
}

/* One update per bucket, or more if its tensors are updated in different ways. */
static void plan_updates(struct planner *p, struct optimizer *o)
{
    /* Each tensor begins and ends a range at most, and each buffer of offloaded state. */
    o->updates = xcalloc((size_t)(2 * (o->parameters->tensor_count + o->parameters->bucket_count +
                                       buffers_of(o) + 1)),
                         sizeof(*o->updates));
    for (int i = 0; i < o->parameters->bucket_count; i++) {
        struct range shard = shard_of(o, &o->parameters->buckets[i]);
        int64_t at = shard.first, last = shard.first + shard.count;

        do {
            int64_t own = o->parameters->buckets[i].shard_first + at - shard.first;
            int64_t end = at + optimizer_state_span(&o->state, own, last - at);
            enum way way = way_until(o, at, &end);

            plan_update(p, o, i, at, end, way);
            at = end;
        } while (at < last);
    }
}

/* To sum up master weights, segments are cut into what is on the device at a time. */
static void plan_sums(struct planner *p, struct optimizer *o)
{
    if (o->state.hosted == 0 || !o->state.types.master)
        return;
    o->sums = xcalloc((size_t)(2 * (o->segment_count + buffers_of(o) + 1)), sizeof(*o->sums));
    for (int i = 0; i < o->segment_count; i++)
        for (int64_t at = 0; at < o->segments[i].count; at += o->sums[o->sum_count++].count) {
            struct segment *sum = &o->sums[o->sum_count];
            struct operation op = {.kind = OPERATION_SQUARE_SUM};

            sum->shard_first = o->segments[i].shard_first + at;
            sum->count =
                optimizer_state_span(&o->state, sum->shard_first, o->segments[i].count - at);
            op.square_sum.count = sum->count;
            sum->plan = plan_make(p, &op);
        }
}

/* Vectors are rounded into the arena if it is not fp32. */
static void plan_rounding(struct planner *planner, struct optimizer *o)
{
    const struct parameters *p = o->parameters;

    o->round = xcalloc((size_t)p->bucket_count, sizeof(struct device_plan *));
    o->rounded = xcalloc((size_t)p->bucket_count, 1);
    for (int i = 0; i < p->bucket_count && o->facts.vectors; i++) {
        struct operation op = {.kind = OPERATION_CONVERT,
                               .convert = {bucket_vectors(&p->buckets[i]).count, TYPE_FP32,
                                           o->facts.gradient_type, 0}};

        if (op.convert.count > 0)
            o->round[i] = plan_make(planner, &op);
    }
}

int optimizer_create_plans(struct optimizer *o, struct error *err)
{
    struct planner p = {.plans = &o->plans, .err = err};
    int buckets = o->parameters->bucket_count;

    plan_rounding(&p, o);
    plan_updates(&p, o);
    o->segments = xcalloc((size_t)(buckets * CLASS_COUNT), sizeof(*o->segments));
    for (int i = 0; i < buckets; i++)
        plan_segments(&p, o, &o->parameters->buckets[i]);
    plan_sums(&p, o);
    for (int phase = 0; phase < STEP_PHASES; phase++) {
        struct operation op = {.kind = OPERATION_STEP,
                               .step = {o->config.rules, (enum step_phase)phase}};

        o->phases[phase] = plan_make(&p, &op);
    }
    return p.failed ? -1 : 0;
}

void optimizer_destroy_plans(struct optimizer *o)
{
    plans_destroy(&o->plans);
    free(o->slices);
    free(o->sums);
    free(o->round);
    free(o->rounded);
    free(o->updates);
    free(o->segments);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline.h"
#include "base/core/xmalloc.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct pipeline_item nothing = {0, -1, -1};

struct builder {
    const struct pipeline_shape *shape;
    struct pipeline *out;
    int room;
    int total; /* passes of either direction */
};

static void push(struct builder *b, struct pipeline_operation op)
{
    /* The list was allocated for the longest schedule. */
    if (b->out->count < b->room)
        b->out->list[b->out->count++] = op;
}

static void pass(struct builder *b, enum pipeline_kind kind, struct pipeline_item item)
{
    push(b, (struct pipeline_operation){kind, item, nothing, nothing});
}

static void exchange(struct builder *b, enum pipeline_kind kind, struct pipeline_item send,
                     struct pipeline_item receive)
{
    if (send.micro >= 0 || receive.micro >= 0)
        push(b, (struct pipeline_operation){kind, nothing, send, receive});
}

/* The k-th pass of a stage: groups of 'stages' micro-batches pass through one chunk after another.
 */
static struct pipeline_item nth(const struct builder *b, int k, int backward)
{
    const struct pipeline_shape *s = b->shape;
    int group = s->stages * s->chunks, chunk = k % group / s->stages;

    return (struct pipeline_item){backward ? s->chunks - 1 - chunk : chunk,
                                  k / group * s->stages + k % s->stages, -1};
}

/* What is exchanged with a neighbor for the k-th pass: nothing at the start and the end of the
 * model, or if there is no such pass. */
static struct pipeline_item from_prev(const struct builder *b, int k, int backward)
{
    struct pipeline_item item = nth(b, k, backward);
    int begins = b->shape->stage == 0 && item.chunk == 0;

    return begins || k >= b->total ? nothing : item;
}

static struct pipeline_item to_next(const struct builder *b, int k, int backward)
{
    struct pipeline_item item = nth(b, k, backward);
    int ends = b->shape->stage == b->shape->stages - 1 && item.chunk == b->shape->chunks - 1;

    return ends || k >= b->total ? nothing : item;
}

static void forward(struct builder *b, int k)
{
    pass(b, PIPELINE_FORWARD, nth(b, k, 0));
    exchange(b, PIPELINE_ACTIVATIONS, to_next(b, k, 0), from_prev(b, k + 1, 0));
}

/* Interleaved stages form a ring: a gradient is sent together with receiving the next one. In a
 * line that would be too early: the next gradient may depend on an output that this stage has yet
 * to send.
 */
static int is_ring(const struct builder *b)
{
    return b->shape->chunks > 1;
}

static void backward(struct builder *b, int k)
{
    if (!is_ring(b))
        exchange(b, PIPELINE_GRADIENTS, nothing, to_next(b, k, 1));
    pass(b, PIPELINE_BACKWARD, nth(b, k, 1));
    exchange(b, PIPELINE_GRADIENTS, from_prev(b, k, 1),
             is_ring(b) ? to_next(b, k + 1, 1) : nothing);
}

/* Warm-up: forward passes before forward and backward passes alternate, of 'total'. */
static int64_t warm_up(const struct pipeline_shape *s, int64_t total)
{
    int behind = s->stages - s->stage - 1;
    int passes = s->chunks == 1 ? behind : 2 * behind + (s->chunks - 1) * s->stages;

    /* With an interleaved schedule and as many micro-batches as stages, nothing alternates. */
    if (s->forward_only || passes > total || (s->chunks > 1 && s->micros == s->stages))
        return total;
    return passes;
}

static void build(struct builder *b)
{
    int warmup = (int)warm_up(b->shape, b->total), k;

    exchange(b, PIPELINE_ACTIVATIONS, nothing, from_prev(b, 0, 0));
    for (k = 0; k < warmup; k++)
        forward(b, k);
    if (b->shape->forward_only)
        return;
    if (is_ring(b))
        exchange(b, PIPELINE_GRADIENTS, nothing, to_next(b, 0, 1));
    for (k = 0; k < b->total - warmup; k++) {
        forward(b, warmup + k);
        backward(b, k);
    }
    for (; k < b->total; k++)
        backward(b, k);
}

/* Slots while the schedule is played: which are free, and which each item has. */
struct slots {
    int *free; /* the one freed last comes last */
    int free_count;
    int *of; /* by chunk and micro-batch */
};

static int *slot_of(const struct builder *b, const struct slots *slots, struct pipeline_item item)
{
    return &slots->of[item.chunk * b->shape->micros + item.micro];
}

/* A new slot is added only if none is free, so there are as many as items alive at once. In the
 * steady state of a schedule, a forward pass takes the slot of the backward pass before it. */
static void take_slot(struct builder *b, struct slots *slots, struct pipeline_item item)
{
    *slot_of(b, slots, item) =
        slots->free_count > 0 ? slots->free[--slots->free_count] : b->out->slots++;
}

static void assign_slots(struct builder *b, struct slots *slots)
{
    for (int i = 0; i < b->out->count; i++) {
        struct pipeline_operation *op = &b->out->list[i];

        if (op->kind == PIPELINE_FORWARD)
            take_slot(b, slots, op->item);
        if (op->kind <= PIPELINE_BACKWARD)
            op->item.slot = *slot_of(b, slots, op->item);
        else if (op->send.micro >= 0)
            op->send.slot = *slot_of(b, slots, op->send);
        if (op->kind == PIPELINE_BACKWARD ||
            (op->kind == PIPELINE_FORWARD && b->shape->forward_only))
            slots->free[slots->free_count++] = op->item.slot;
    }
}

static void create_slots(struct builder *b)
{
    struct slots slots = {.free = xcalloc((size_t)b->total + 1, sizeof(int)),
                          .of = xcalloc((size_t)b->total + 1, sizeof(int))};

    assign_slots(b, &slots);
    free(slots.free);
    free(slots.of);
}

static int check_shape(const struct pipeline_shape *shape, struct error *err)
{
    if (shape->chunks > 1 && shape->micros % shape->stages != 0)
        return error_set_code(
            err, ERROR_USAGE,
            "the interleaved pipeline schedule needs a number of micro-batches that is a multiple "
            "of the %d pipeline stages, not %d; change the global or the micro-batch size",
            shape->stages, shape->micros);
    return 0;
}

int pipeline_create(struct pipeline *pipeline, const struct pipeline_shape *shape,
                    struct error *err)
{
    int64_t total = (int64_t)shape->micros * shape->chunks, room = 5 * total + 2;
    struct builder b = {shape, pipeline, (int)room, (int)total};

    memset(pipeline, 0, sizeof(*pipeline));
    if (check_shape(shape, err) < 0)
        return -1;
    if (room > INT_MAX)
        return error_set_code(
            err, ERROR_USAGE,
            "%d micro-batches are too many for a step; use a smaller global batch "
            "or a larger micro-batch",
            shape->micros);
    pipeline->list = xcalloc((size_t)b.room, sizeof(*pipeline->list));
    build(&b);
    create_slots(&b);
    return 0;
}

/* Each forward pass of the warm-up takes a slot, and so does the first one after it; from then on
 * a backward pass frees one for the next. */
int pipeline_slots(const struct pipeline_shape *shape, int *slots, struct error *err)
{
    int64_t total = (int64_t)shape->micros * shape->chunks, most = warm_up(shape, total) + 1;

    if (check_shape(shape, err) < 0)
        return -1;
    if (shape->forward_only)
        most = 1;
    *slots = (int)(most < total ? most : total);
    return 0;
}

void pipeline_destroy(struct pipeline *pipeline)
{
    free(pipeline->list);
    memset(pipeline, 0, sizeof(*pipeline));
}

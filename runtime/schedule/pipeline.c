#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

static const struct pipeline_item nothing = {0, -1};

struct builder {
    const struct pipeline_shape *shape;
    struct pipeline *out;
    int room;
};

static struct pipeline_operation blank(enum pipeline_kind kind)
{
    return (struct pipeline_operation){kind, nothing, nothing, nothing, nothing, nothing};
}

static void push(struct builder *b, struct pipeline_operation op)
{
    /* Room for the longest list was made at the start. */
    if (b->out->count < b->room)
        b->out->list[b->out->count++] = op;
}

static void pass(struct builder *b, enum pipeline_kind kind, struct pipeline_item item)
{
    struct pipeline_operation op = blank(kind);

    op.item = item;
    push(b, op);
}

static void exchange(struct builder *b, struct pipeline_item send_next,
                     struct pipeline_item recv_prev, struct pipeline_item send_prev,
                     struct pipeline_item recv_next)
{
    struct pipeline_operation op = blank(PIPELINE_EXCHANGE);

    if (send_next.micro < 0 && recv_prev.micro < 0 && send_prev.micro < 0 && recv_next.micro < 0)
        return;
    op.send_next = send_next;
    op.recv_prev = recv_prev;
    op.send_prev = send_prev;
    op.recv_next = recv_next;
    push(b, op);
}

/* What crosses a stage's border; nothing where the model begins or ends. */
static struct pipeline_item from_prev(const struct builder *b, struct pipeline_item item)
{
    return b->shape->stage == 0 && item.chunk == 0 ? nothing : item;
}

static struct pipeline_item to_next(const struct builder *b, struct pipeline_item item)
{
    int end = b->shape->stage == b->shape->stages - 1 && item.chunk == b->shape->chunks - 1;

    return end ? nothing : item;
}

static void build_plain(struct builder *b)
{
    const struct pipeline_shape *s = b->shape;
    int warmup = s->forward_only ? s->micros : s->stages - s->stage - 1, backward = 0;

    if (warmup > s->micros)
        warmup = s->micros;
    for (int i = 0; i < warmup; i++) {
        struct pipeline_item item = {0, i};

        exchange(b, nothing, from_prev(b, item), nothing, nothing);
        pass(b, PIPELINE_FORWARD, item);
        exchange(b, to_next(b, item), nothing, nothing, nothing);
    }
    if (s->forward_only)
        return;
    if (warmup < s->micros)
        exchange(b, nothing, from_prev(b, (struct pipeline_item){0, warmup}), nothing, nothing);
    for (int i = warmup; i < s->micros; i++, backward++) {
        struct pipeline_item item = {0, i}, gradient = {0, backward}, next = {0, i + 1};

        pass(b, PIPELINE_FORWARD, item);
        exchange(b, to_next(b, item), nothing, nothing, to_next(b, gradient));
        pass(b, PIPELINE_BACKWARD, gradient);
        exchange(b, nothing, i + 1 < s->micros ? from_prev(b, next) : nothing,
                 from_prev(b, gradient), nothing);
    }
    for (; backward < s->micros; backward++) {
        struct pipeline_item gradient = {0, backward};

        exchange(b, nothing, nothing, nothing, to_next(b, gradient));
        pass(b, PIPELINE_BACKWARD, gradient);
        exchange(b, nothing, nothing, from_prev(b, gradient), nothing);
    }
}

/* The k-th pass of a stage: groups of 'stages' micro-batches go through chunk after chunk. */
static struct pipeline_item nth(const struct builder *b, int k, int backward)
{
    const struct pipeline_shape *s = b->shape;
    int group = s->stages * s->chunks, chunk = k % group / s->stages;

    return (struct pipeline_item){backward ? s->chunks - 1 - chunk : chunk,
                                  k / group * s->stages + k % s->stages};
}

static struct pipeline_item nth_input(const struct builder *b, int k, int total)
{
    return k < total ? from_prev(b, nth(b, k, 0)) : nothing;
}

static struct pipeline_item nth_gradient(const struct builder *b, int k, int total)
{
    return k < total ? to_next(b, nth(b, k, 1)) : nothing;
}

static void build_interleaved(struct builder *b)
{
    const struct pipeline_shape *s = b->shape;
    int total = s->micros * s->chunks;
    int warmup = (s->stages - s->stage - 1) * 2 + (s->chunks - 1) * s->stages;
    /* With as many micro-batches as stages nothing is left to alternate. */
    int all = s->forward_only || s->micros == s->stages;

    if (all || warmup > total)
        warmup = total;
    exchange(b, nothing, nth_input(b, 0, total), nothing, nothing);
    for (int k = 0; k < warmup; k++) {
        int last = k == warmup - 1 && !all;

        pass(b, PIPELINE_FORWARD, nth(b, k, 0));
        exchange(b, to_next(b, nth(b, k, 0)), nth_input(b, k + 1, total), nothing,
                 last ? nth_gradient(b, 0, total) : nothing);
    }
    for (int k = 0; k < total - warmup; k++) {
        pass(b, PIPELINE_FORWARD, nth(b, k + warmup, 0));
        pass(b, PIPELINE_BACKWARD, nth(b, k, 1));
        exchange(b, to_next(b, nth(b, k + warmup, 0)), nth_input(b, k + warmup + 1, total),
                 from_prev(b, nth(b, k, 1)), nth_gradient(b, k + 1, total));
    }
    if (s->forward_only)
        return;
    if (all)
        exchange(b, nothing, nothing, nothing, nth_gradient(b, 0, total));
    for (int k = total - warmup; k < total; k++) {
        pass(b, PIPELINE_BACKWARD, nth(b, k, 1));
        exchange(b, nothing, nothing, from_prev(b, nth(b, k, 1)), nth_gradient(b, k + 1, total));
    }
}

/* Does the operation touch the memory of micro-batch 'micro' in 'chunk'? */
static int touches(const struct pipeline_operation *op, int chunk, int micro)
{
    const struct pipeline_item *items[] = {&op->item, &op->send_next, &op->recv_prev,
                                           &op->send_prev, &op->recv_next};

    for (int i = 0; i < 5; i++)
        if (items[i]->micro == micro && items[i]->chunk == chunk)
            return 1;
    return 0;
}

/* Micro-batches of a chunk begin and end in order, so the slots needed are the most that are alive
 * at once. */
static int count_slots(const struct pipeline *p, const struct pipeline_shape *s, int chunk)
{
    int most = 1, begun = 0, *last = calloc((size_t)s->micros, sizeof(*last));

    if (!last)
        return -1;
    for (int i = 0; i < p->count; i++)
        for (int m = 0; m < s->micros; m++)
            if (touches(&p->list[i], chunk, m))
                last[m] = i;
    for (int i = 0; i < p->count; i++) {
        int alive = 0;

        while (begun < s->micros && touches(&p->list[i], chunk, begun))
            begun++;
        for (int m = begun - 1; m >= 0 && last[m] >= i; m--)
            alive++;
        most = alive > most ? alive : most;
    }
    free(last);
    return most;
}

int pipeline_create(struct pipeline *pipeline, const struct pipeline_shape *shape,
                    struct error *err)
{
    struct builder b = {shape, pipeline, 6 * shape->micros * shape->chunks + 8};

    memset(pipeline, 0, sizeof(*pipeline));
    if (shape->chunks > 1 && shape->micros % shape->stages != 0)
        return error_set(err,
                         "the interleaved schedule needs a number of micro-batches that is a "
                         "multiple of --pipeline-model-parallel-size=%d, not %d; change "
                         "--global-batch-size or --micro-batch-size",
                         shape->stages, shape->micros);
    pipeline->list = calloc((size_t)b.room, sizeof(*pipeline->list));
    pipeline->slots = calloc((size_t)shape->chunks, sizeof(*pipeline->slots));
    if (!pipeline->list || !pipeline->slots)
        return error_set(err, "out of memory");
    if (shape->chunks > 1)
        build_interleaved(&b);
    else
        build_plain(&b);
    for (int chunk = 0; chunk < shape->chunks; chunk++) {
        pipeline->slots[chunk] = count_slots(pipeline, shape, chunk);
        if (pipeline->slots[chunk] < 0)
            return error_set(err, "out of memory");
    }
    return 0;
}

void pipeline_destroy(struct pipeline *pipeline)
{
    free(pipeline->list);
    free(pipeline->slots);
    memset(pipeline, 0, sizeof(*pipeline));
}

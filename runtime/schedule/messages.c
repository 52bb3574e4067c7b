#include "messages.h"

#include <stdlib.h>

enum direction { ACTIVATIONS, GRADIENTS, DIRECTIONS };

/* One direction: its group is no other's, so that it never waits for the other one. */
struct way {
    struct comm_group *group;
    struct device_stream *stream;
    struct device_event *passed;  /* the last pass of this direction */
    struct device_event *arrived; /* what was received last */
    struct device_event **sent;   /* per slot of all chunks: what was sent of it last */
    struct device_event *settled; /* all of it */
};

struct messages {
    struct model *model;
    struct device_stream *compute;
    enum device_type type;
    const int *slots;
    int slot_count, stage, stages;
    struct way ways[DIRECTIONS];
};

static int create_way(struct messages *m, struct way *way, struct comm_group *group,
                      struct device *device, struct error *err)
{
    way->group = group;
    way->stream = device_stream_create(device, 1, err);
    way->passed = way->stream ? device_event_create(device, 0, err) : NULL;
    way->arrived = way->passed ? device_event_create(device, 0, err) : NULL;
    way->settled = way->arrived ? device_event_create(device, 0, err) : NULL;
    if (!way->settled)
        return -1;
    way->sent = calloc((size_t)m->slot_count, sizeof(struct device_event *));
    if (!way->sent)
        return error_set(err, "out of memory");
    for (int i = 0; i < m->slot_count; i++) {
        way->sent[i] = device_event_create(device, 0, err);
        if (!way->sent[i])
            return -1;
    }
    return 0;
}

struct messages *messages_create(struct model *model, const struct parallel *parallel,
                                 struct device *device, enum device_type type, int chunks,
                                 const int *slots, struct error *err)
{
    struct messages *m = calloc(1, sizeof(*m));

    if (!m) {
        error_set(err, "out of memory");
        return NULL;
    }
    m->model = model;
    m->compute = model_stream(model);
    m->type = type;
    m->slots = slots;
    m->stage = (int)parallel->at.pp;
    m->stages = (int)parallel->layout.pp;
    for (int c = 0; c < chunks; c++)
        m->slot_count += slots[c];
    if (m->stages > 1 &&
        (create_way(m, &m->ways[ACTIVATIONS], parallel->pipeline, device, err) < 0 ||
         create_way(m, &m->ways[GRADIENTS], parallel->upstream, device, err) < 0)) {
        messages_destroy(m);
        return NULL;
    }
    return m;
}

void messages_destroy(struct messages *m)
{
    for (int d = 0; m && d < DIRECTIONS; d++) {
        struct way *way = &m->ways[d];

        for (int i = 0; way->sent && i < m->slot_count; i++)
            device_event_destroy(way->sent[i]);
        device_event_destroy(way->passed);
        device_event_destroy(way->arrived);
        device_event_destroy(way->settled);
        device_stream_destroy(way->stream);
        free(way->sent);
    }
    free(m);
}

/* 'step' is 1 for the next stage, -1 for the one before. */
static struct comm_message message(const struct messages *m, int step, int send, void *buffer)
{
    const struct model_sizes *z = model_sizes_of(m->model);

    return (struct comm_message){(m->stage + step + m->stages) % m->stages, send, buffer,
                                 (size_t)(z->part_rows * z->hidden), m->type};
}

void messages_exchange(struct messages *m, const struct pipeline_operation *op)
{
    enum direction direction = op->kind == PIPELINE_ACTIVATIONS ? ACTIVATIONS : GRADIENTS;
    struct way *way = &m->ways[direction];
    int forward = direction == ACTIVATIONS ? 1 : -1, sends = op->send.micro >= 0;
    struct comm_message list[2] = {{0}};
    size_t count = 0;

    if (sends)
        list[count++] = message(m, forward, 1,
                                (forward > 0 ? model_output : model_input_gradient)(
                                    m->model, op->send.chunk, pipeline_slot(m->slots, op->send)));
    if (op->receive.micro >= 0)
        list[count++] =
            message(m, -forward, 0, (forward > 0 ? model_input : model_output_gradient)(m->model));
    device_event_follow(way->stream, way->passed);
    comm_exchange(way->group, way->stream, list, count);
    if (op->receive.micro >= 0)
        device_event_record(way->arrived, way->stream);
    if (sends)
        device_event_record(way->sent[pipeline_slot_of_all(m->slots, op->send)], way->stream);
}

static struct way *way_of(struct messages *m, const struct pipeline_operation *pass)
{
    return &m->ways[pass->kind == PIPELINE_FORWARD ? ACTIVATIONS : GRADIENTS];
}

void messages_await(struct messages *m, const struct pipeline_operation *pass)
{
    struct way *way = way_of(m, pass);

    if (m->stages == 1)
        return;
    device_event_follow(m->compute, way->arrived);
    device_event_follow(m->compute, way->sent[pipeline_slot_of_all(m->slots, pass->item)]);
}

void messages_passed(struct messages *m, const struct pipeline_operation *pass)
{
    if (m->stages > 1)
        device_event_record(way_of(m, pass)->passed, m->compute);
}

void messages_settle(struct messages *m)
{
    for (int d = 0; d < DIRECTIONS && m->stages > 1; d++) {
        device_event_record(m->ways[d].settled, m->ways[d].stream);
        device_event_follow(m->compute, m->ways[d].settled);
    }
}

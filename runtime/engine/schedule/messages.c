/* SPDX-License-Identifier: Apache-2.0 */
#include "messages.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

enum direction { ACTIVATIONS, GRADIENTS, DIRECTIONS };

/* One direction. It has its own group, so that neither direction waits for the other. */
struct link {
    struct comm_group *group;
    struct device_stream *stream;
    struct device_event *passed;  /* the last pass of this direction */
    struct device_event *arrived; /* the last message received */
    struct device_event **sent;   /* per slot: its last message sent */
    struct device_event *settled; /* all messages */
};

struct messages {
    struct model *model;
    struct device_stream *compute;
    enum device_type type;
    int slot_count, stage, stages;
    struct link links[DIRECTIONS];
};

static void create_link(struct messages *m, struct link *link, struct comm_group *group,
                        struct device *device)
{
    *link = (struct link){.group = group,
                          .stream = device_stream_create(device, 1),
                          .passed = device_event_create(device, 0),
                          .arrived = device_event_create(device, 0),
                          .settled = device_event_create(device, 0),
                          .sent = xcalloc((size_t)m->slot_count, sizeof(struct device_event *))};
    for (int i = 0; i < m->slot_count; i++)
        link->sent[i] = device_event_create(device, 0);
}

struct messages *messages_create(struct model *model, const struct parallel *parallel,
                                 struct device *device, enum device_type type, int slots)
{
    struct messages *m = xcalloc(1, sizeof(*m));

    m->model = model;
    m->compute = model_facts(model).stream;
    m->type = type;
    m->slot_count = slots;
    m->stage = (int)parallel->at.pp;
    m->stages = (int)parallel->layout.pp;
    if (m->stages > 1) {
        create_link(m, &m->links[ACTIVATIONS], parallel->pipeline, device);
        create_link(m, &m->links[GRADIENTS], parallel->upstream, device);
    }
    return m;
}

void messages_destroy(struct messages *m)
{
    for (int d = 0; m && d < DIRECTIONS; d++) {
        struct link *link = &m->links[d];

        for (int i = 0; link->sent && i < m->slot_count; i++)
            device_event_destroy(link->sent[i]);
        device_event_destroy(link->passed);
        device_event_destroy(link->arrived);
        device_event_destroy(link->settled);
        device_stream_destroy(link->stream);
        free(link->sent);
    }
    free(m);
}

/* 'step' is 1 for the next stage, -1 for the previous one. */
static struct comm_message message(const struct messages *m, int step, int send, void *buffer)
{
    const struct model_sizes *z = model_facts(m->model).sizes;

    return (struct comm_message){(m->stage + step + m->stages) % m->stages, send, buffer,
                                 (size_t)(z->part_rows * z->hidden), m->type};
}

void messages_exchange(struct messages *m, const struct pipeline_operation *op)
{
    enum direction direction = op->kind == PIPELINE_ACTIVATIONS ? ACTIVATIONS : GRADIENTS;
    struct link *link = &m->links[direction];
    int forward = direction == ACTIVATIONS ? 1 : -1, sends = op->send.micro >= 0;
    const struct model_facts facts = model_facts(m->model);
    struct comm_message list[2] = {{0}};
    size_t count = 0;

    if (sends)
        list[count++] = message(m, forward, 1,
                                (forward > 0 ? model_output : model_input_gradient)(
                                    m->model, op->send.chunk, op->send.slot));
    if (op->receive.micro >= 0)
        list[count++] = message(m, -forward, 0, forward > 0 ? facts.input : facts.output_gradient);
    device_event_follow(link->stream, link->passed);
    comm_exchange(link->group, link->stream, list, count);
    if (op->receive.micro >= 0)
        device_event_record(link->arrived, link->stream);
    if (sends)
        device_event_record(link->sent[op->send.slot], link->stream);
}

static struct link *link_of(struct messages *m, const struct pipeline_operation *pass)
{
    return &m->links[pass->kind == PIPELINE_FORWARD ? ACTIVATIONS : GRADIENTS];
}

void messages_await(struct messages *m, const struct pipeline_operation *pass)
{
    struct link *link = link_of(m, pass);

    if (m->stages == 1)
        return;
    device_event_follow(m->compute, link->arrived);
    device_event_follow(m->compute, link->sent[pass->item.slot]);
}

void messages_passed(struct messages *m, const struct pipeline_operation *pass)
{
    if (m->stages > 1)
        device_event_record(link_of(m, pass)->passed, m->compute);
}

void messages_settle(struct messages *m)
{
    for (int d = 0; d < DIRECTIONS && m->stages > 1; d++) {
        device_event_record(m->links[d].settled, m->links[d].stream);
        device_event_follow(m->compute, m->links[d].settled);
    }
}

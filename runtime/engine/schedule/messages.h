/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between pipeline stages, on separate streams: activations to the next stage on one,
 * gradients to the previous stage on the other. */
#ifndef MEGATRON_MESSAGES_H
#define MEGATRON_MESSAGES_H

#include "engine/model/model.h"
#include "pipeline.h"

struct messages;

/* 'slots': how many the model has. The arguments must outlive the result. With one stage there is
 * nothing to send, and the other calls do nothing. Caller must destroy. */
struct messages *messages_create(struct model *model, const struct parallel *parallel,
                                 struct device *device, enum device_type type, int slots);
void messages_destroy(struct messages *messages);

/* Enqueue an exchange of the schedule on its stream, after the passes of its direction. */
void messages_exchange(struct messages *messages, const struct pipeline_operation *op);

/* Before a pass of the schedule is enqueued on the model's stream: let that stream wait for the
 * message that the pass needs, and until the memory that it writes has been sent. */
void messages_await(struct messages *messages, const struct pipeline_operation *pass);

/* The pass has been enqueued on the model's stream. */
void messages_passed(struct messages *messages, const struct pipeline_operation *pass);

/* Let the model's stream wait for all exchanges enqueued so far. Waiting for that stream at the end
 * of a step then leaves no message unsent that another stage waits for. */
void messages_settle(struct messages *messages);

#endif

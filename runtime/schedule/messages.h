/* What stages of the pipeline send each other, on streams beside the one that computes: activations
 * to the next stage on one, gradients to the stage before on the other. */
#ifndef MEGATRON_MESSAGES_H
#define MEGATRON_MESSAGES_H

#include "model.h"
#include "pipeline.h"

struct messages;

/* 'slots' has as many entries as the model has chunks. All that is pointed to must outlive this.
 * With one stage there is nothing to send: its lists have no exchange, and the other calls do
 * nothing. Returns NULL with 'err' set. Caller must destroy. */
struct messages *messages_create(struct model *model, const struct parallel *parallel,
                                 struct device *device, enum device_type type, int chunks,
                                 const int *slots, struct error *err);
void messages_destroy(struct messages *messages);

/* Give an exchange of the pipeline's list to its stream, behind the passes of its direction. */
void messages_exchange(struct messages *messages, const struct pipeline_operation *op);

/* Before a pass of the list is given to the model's stream: let it wait for what the pass needs,
 * and for what was sent of the memory that it writes. */
void messages_await(struct messages *messages, const struct pipeline_operation *pass);

/* The pass was given to the model's stream. */
void messages_passed(struct messages *messages, const struct pipeline_operation *pass);

/* Let the model's stream wait for all exchanges given so far, so that whoever waits for that stream
 * at the end of a step leaves no message behind that another stage waits for. */
void messages_settle(struct messages *messages);

#endif

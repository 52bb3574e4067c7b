/* The transformer of one rank: weights, memory of its micro-batches, forward and backward passes.
 *
 * A rank has one or more chunks (virtual pipeline stages). A slot holds what one micro-batch leaves
 * between its forward and its backward pass through one chunk; how many are needed the pipeline
 * schedule knows. All work goes to the model's compute stream (collectives of tensor and context
 * parallelism to its side stream, ordered by events); nothing waits. */
#ifndef MEGATRON_MODEL_H
#define MEGATRON_MODEL_H

#include "model_config.h"
#include "parallel.h"
#include "parameters.h"

/* One micro-batch in device memory; 'rows' entries each, in the order of this rank's tokens. */
struct model_batch {
    int32_t *tokens, *targets;
    int32_t *positions;      /* for the position embedding or rotation */
    int32_t *document_start; /* first key each token sees, as a position of its whole sample */
    float *weight;           /* share of each token in the step's loss */
    int64_t *row_index;      /* sample * sequence + position over the global batch */
    /* The same two by slice of the sequence (see zigzag_split): (slices, samples, slice_rows). With
     * one slice these are the arrays above. */
    int64_t *slice_row_index;
    int32_t *slice_document_start;
    /* With config.cache instead of targets, documents, weights and row numbers: */
    int32_t *place; /* row of the cache for the token's key and value, sample * cache + position;
                       -1: none, the token is padding */
    int32_t *last;  /* (samples) row of the token whose logits are wanted */
};

/* Lay out a batch from 'base' (aligned to DEVICE_ALIGNMENT; NULL: only count) and return its bytes.
 * The batch of a slot is laid out the same way from its 'tokens' on, so one copy fills it. */
size_t model_batch_place(const struct model_sizes *sizes, void *base, struct model_batch *batch);

/* Bytes of each arena of a rank. */
struct model_memory {
    size_t weights, gradients, optimizer, activations;
};

struct model;

/* What the rank at 'at' needs, with 'slots' slots for each chunk. Needs no device. */
int model_plan_memory(const struct model_config *config, const struct layout *layout,
                      const struct layout_position *at, const int *slots,
                      struct model_memory *memory, struct error *err);

/* Make the model with its plans and arenas: weights, main gradients and activations. 'parallel' and
 * 'device' must outlive it. Returns NULL with 'err' set. Caller must destroy. */
struct model *model_create(const struct model_config *config, const struct parallel *parallel,
                           struct device *device, const int *slots, struct error *err);
void model_destroy(struct model *model);

const struct parameters *model_parameters_of(const struct model *model);
const struct model_sizes *model_sizes_of(const struct model *model);

/* The arenas, in the order of the parameters: config's type and fp32. */
void *model_weights(struct model *model);
float *model_gradients(struct model *model);

/* The stream of all computation, and the step's state in device memory. */
struct device_stream *model_stream(struct model *model);
struct step_state *model_state(struct model *model);

/* Fill the weights with their first random values, by way of the gradient arena, which then holds
 * them in fp32. */
int model_initialize(struct model *model, struct error *err);

/* Take the weights from the gradient arena, where a loader has put them in fp32. */
int model_adopt(struct model *model, struct error *err);

/* Where the batch of a slot lies; the caller fills it before model_forward. */
const struct model_batch *model_batch(struct model *model, int chunk, int slot);

/* Room for a batch on its way to that of a slot, laid out like it; there are MODEL_STAGED. So one
 * can come from the host while the slot is in use. */
#define MODEL_STAGED 2
void *model_staged(struct model *model, int i);

/* Activations that go from chunk to chunk: (part_rows, hidden) of config's type. Inputs of all
 * chunks arrive at one place, from where model_forward takes the one of its slot at once; it is
 * NULL with one stage. The output of the chunk that has the head is NULL. */
void *model_input(struct model *model);
void *model_output(struct model *model, int chunk, int slot);
/* Their gradients. Those of outputs arrive at one place, too, and are there until the end of
 * model_backward. */
void *model_input_gradient(struct model *model, int chunk, int slot);
void *model_output_gradient(struct model *model);

/* Tell the library that communicates of the memory it will see at every step: weights and
 * gradients, and what the tensor-parallel ranks exchange. Returns how much of it was taken, in
 * bytes. */
size_t model_register(struct model *model);

/* Have 'use' called before a forward pass gives the first work to the stream that reads weights of
 * a layer of the chunk, from layer 0 on; with layer 0 those of embedding and head are meant too. */
void model_on_use(struct model *model, void (*use)(void *context, int chunk, int64_t layer),
                  void *context);

/* Forward pass of a slot's micro-batch. The chunk with the head adds to state->loss and, unless
 * 'evaluate', takes the head's gradients at once ('accumulate' as below), so that logits are never
 * kept. 'evaluate' also leaves out dropout. */
void model_forward(struct model *model, int chunk, int slot, int evaluate, int accumulate);

/* --- Generation: models with config.cache, one chunk, one slot and no context parallelism ------
 */

/* A model of the same weights and cache whose passes take 'window' tokens of each sample. The work
 * of both is done in the order in which it is given. 'base' must outlive it. Caller must destroy.
 */
struct model *model_create_window(struct model *base, int64_t window, struct error *err);

/* Give the memory of the gradients back once the weights are adopted. */
void model_release_gradients(struct model *model);

/* Forward pass of the tokens in the slot's batch: their keys and values go to their places in the
 * cache, and they see those of their sample up to their own position. 'longest': all positions are
 * below it. The chunk with the head leaves the logits that the batch asks for. */
void model_extend(struct model *model, int64_t longest);

/* (samples, vocabulary) of config's type; NULL on ranks without the head. */
void *model_logits(struct model *model);

/* --- Training ----------------------------------------------------------------------------------
 */

/* Backward pass; gradients of weights are added to what is there, or replace it unless 'accumulate'
 * (the first micro-batch of a step). 'ready' (or NULL) is called when all gradients of a layer of
 * the chunk have been given to the stream, from the last layer to layer 0; with layer 0 those of
 * embedding and head are too. */
void model_backward(struct model *model, int chunk, int slot, int accumulate,
                    void (*ready)(void *context, int chunk, int64_t layer), void *context);

#endif

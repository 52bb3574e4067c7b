/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one rank: weights, memory of its micro-batches, forward and backward passes.
 *
 *     struct model *model = model_create(&config, &parallel, device, slots, &err);
 *     model_initialize(model, &err);          or fill start_weights, and then model_adopt()
 *     for each micro-batch of a step:
 *         ... copy it to model_batch(model, chunk, slot) ...
 *         model_forward(model, chunk, slot, 0, accumulate);
 *         model_backward(model, chunk, slot, accumulate, NULL, NULL);
 *     ... reduce model_facts(model).gradients, update the weights ...
 *     model_destroy(model);
 *
 * A rank has one or more chunks (virtual pipeline stages). A slot holds what a micro-batch keeps
 * between its forward and its backward pass through one chunk; all chunks use the same slots, and
 * the pipeline schedule determines how many are needed. All work is enqueued on the model's compute
 * stream (collectives of tensor and context parallelism on a side stream, ordered by events); no
 * call blocks. */
#ifndef MEGATRON_MODEL_H
#define MEGATRON_MODEL_H

#include "model_config.h"
#include "engine/parallel/parallel.h"
#include "parameters.h"

#include <stdbool.h>

/* One micro-batch in device memory; 'rows' entries each, in the order of this rank's tokens. */
struct model_batch {
    int32_t *tokens, *targets;
    int32_t *positions;      /* for the position embedding or rotation */
    int32_t *document_start; /* first key each token sees, as a position of its whole sample */
    float *weight;           /* share of each token in the step's gradient */
    float *logged;           /* one number: shares in the logged loss are 'weight' * this */
    int64_t *row_index;      /* sample * sequence + position over the global batch */
    /* row_index and document_start by slice of the sequence (see zigzag_split): (slices, samples,
     * slice_rows). With one slice these are the arrays above. */
    int64_t *slice_row_index;
    int32_t *slice_document_start;
    /* With config.network.window: the first key each token of a layer with a window sees, not
     * before its document; by slice in training, by row in generation. */
    int32_t *window_start;
    /* With config.decoding.cache instead of targets, documents, weights and row numbers: */
    int32_t *cache_row; /* of the token in the KV cache, sample * cache + position; -1: padding */
    int32_t *last;      /* (samples) row of the token whose logits are wanted */
    /* Of a masked model, whose targets and weight have sizes.masked entries, one per selected
     * token; unused entries have weight 0 and target 0: */
    int32_t *selected;     /* (masked) row within this rank's part; -1: unused or another rank's */
    int32_t *document_end; /* one past the last key each token sees, as document_start */
    int32_t *slice_document_end;
    int32_t *token_types;  /* with config.network.token_types */
    int32_t *pair_row;     /* (samples) row of a sample's first token within this rank's part; -1:
                              another rank's. With config.network.binary_head, as the next two */
    int32_t *pair_targets; /* (samples) */
    float *pair_weight;    /* (samples) share in the step's loss; 0: no label, or another
                              context-parallel rank's */
};

/* Lay out a batch from 'base' (aligned to DEVICE_ALIGNMENT; NULL: only count) and return its bytes.
 * The batch of a slot has the same layout, starting at its 'tokens', so that one copy fills it. */
size_t model_batch_lay_out(const struct model_sizes *sizes, void *base, struct model_batch *batch);

/* Bytes of each arena of a rank. */
struct model_memory {
    size_t weights, gradients, optimizer, activations;
};

struct model;
struct planner;

/* The memory of the rank at 'at', with 'slots' slots; the optimizer's is that of
 * optimizer_state_memory. Needs no device. */
void model_plan_memory(const struct model_config *config, const struct layout *layout,
                       const struct layout_position *at, int slots, struct model_memory *memory);

/* Create the model with its plans and arenas: weights, main gradients and activations. 'parallel'
 * and 'device' must outlive it. Returns NULL with 'err' set. Caller must destroy. */
struct model *model_create(const struct model_config *config, const struct parallel *parallel,
                           struct device *device, int slots, struct error *err);
void model_destroy(struct model *model);

#define MODEL_STAGED 2

/* The parts of a model. The pointers are valid as long as the model exists. */
struct model_facts {
    const struct parameters *parameters;
    const struct model_sizes *sizes;
    struct device_stream *stream; /* of all computation */
    struct step_state *state;     /* of the step, in device memory */
    /* The arenas, in the order of the parameters: config's type (see bucket_weight), and its type
     * of gradients. */
    void *weights, *gradients;
    enum device_type gradient_type;
    /* If the gradients are not fp32: the sums of the vectors' gradients, which are, in the order of
     * the buckets (bucket_vectors). The owner of a reduction rounds them into the arena first.
     * Otherwise NULL: they are in the arena. */
    float *vectors;
    /* All weights in fp32, in the order of the parameters, from model_initialize or model_adopt on
     * until model_start: they share memory with gradients and activations. */
    float *start_weights;
    /* Staging buffers for a batch, with the layout of a slot's batch: it can be copied from the
     * host to one of them while the slot is in use. */
    void *staged[MODEL_STAGED];
    /* With several stages: (part_rows, hidden) of config's type, where the inputs of all chunks
     * arrive, which model_forward copies first, and the gradients of all outputs, which must not
     * change until the end of model_backward. */
    void *input, *output_gradient;
    void *logits; /* (head_rows, vocabulary) of config's type, of the last pass; NULL: no head */
    /* The scaling state of fp8 in device memory, fp8_layers_kept() floats laid out as described
     * there, the same on all ranks; NULL: the model has none. */
    float *scaling;
    struct scaling_rules scaling_rules;
    bool keeps_fp8;  /* weights of fp8 layers are kept in fp8 only; see model_cast */
    bool casts_late; /* their scales depend on the updated master weights */
};

struct model_facts model_facts(const struct model *model);

/* Before the first pass: the weights in fp32 are not needed any more. */
int model_start(struct model *model, struct error *err);

/* Initialize the weights at random, through start_weights. */
int model_initialize(struct model *model, struct error *err);

/* Take the weights from start_weights, into which a loader has put them. */
int model_adopt(struct model *model, struct error *err);

/* The batch of a slot; the caller fills it before model_forward. */
const struct model_batch *model_batch(struct model *model, int chunk, int slot);

/* What a chunk sends to the next one, and the gradient that it sends to the one before; NULL: there
 * is none. */
void *model_output(struct model *model, int chunk, int slot);
void *model_input_gradient(struct model *model, int chunk, int slot);

/* Register the memory that every step communicates with the communication library: weights,
 * gradients, and what the tensor-parallel ranks exchange. Returns the bytes that were registered.
 */
size_t model_register(struct model *model);

/* Have 'use' called before a forward pass enqueues the first operation that reads weights of a
 * layer of the chunk, from layer 0 on; layer 0 includes embedding and head. */
void model_on_use(struct model *model, void (*use)(void *context, int chunk, int64_t layer),
                  void *context);

/* Forward pass of a slot's micro-batch. The chunk with the head adds to state->loss and, unless
 * 'evaluate', computes the head's gradients at once ('accumulate' as below), so that logits are
 * never kept. 'evaluate' also disables dropout. */
void model_forward(struct model *model, int chunk, int slot, int evaluate, int accumulate);

/* After the last pass of a step, before STEP_CLIP: combine the amaxes of all ranks and find the
 * scales of the next step. Nothing without fp8. Collective over the world. */
void model_scaling_end(struct model *model);

/* If weights of fp8 layers are kept in fp8 only (buckets of TYPE_E4M3), every update of their
 * master weights, even one that is skipped, casts this rank's elements again: elements 'first' ..
 * first + count - 1 of a tensor, both multiples of 128, with the plan for these. Before that,
 * model_weight_scales finds their scales. With casts_late these depend on the updated master
 * weights, whose amaxes (only_amax) all elements add first; it is then collective over the
 * data-parallel ranks. */
struct device_plan *model_plan_cast(struct planner *planner, const struct model *model, int tensor,
                                    int64_t first, int64_t count);
void model_cast(struct model *model, struct device_plan *plan, int tensor, int64_t first,
                const float *master, int only_amax);
void model_weight_scales(struct model *model);

/* Will the passes of later steps enqueue the same operations? Not before the first step of fp8 has
 * ended: its scales are found from the tensors themselves. */
int model_is_settled(const struct model *model);

/* --- Generation (config.decoding.cache): one chunk, one slot, no context parallelism ---------- */

/* A model with the same weights and KV cache whose passes take 'tokens' tokens of each sample. Both
 * use the same stream. 'base' must outlive it. Returns NULL with 'err' set. Caller must destroy. */
struct model *model_create_pass(struct model *base, int64_t tokens, struct error *err);

/* Free the gradients once the weights are adopted. */
void model_release_gradients(struct model *model);

/* Forward pass of the tokens in the slot's batch: their keys and values are written to the KV
 * cache, and they attend to those of their sample up to their own position. All positions are below
 * 'longest'. The chunk with the head computes the logits of the rows in batch->last. */
void model_extend(struct model *model, int64_t longest);

/* --- Training ----------------------------------------------------------------------------------
 */

/* Backward pass; with 'accumulate' gradients are added to the main gradients, without it (the first
 * micro-batch of a step) they replace them. 'ready' (or NULL) is called when all gradients of a
 * layer of the chunk have been enqueued, from the last layer to layer 0; layer 0 includes embedding
 * and head. */
void model_backward(struct model *model, int chunk, int slot, int accumulate,
                    void (*ready)(void *context, int chunk, int64_t layer), void *context);

#endif

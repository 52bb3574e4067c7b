/* SPDX-License-Identifier: Apache-2.0 */
/* The binary head of BERT: pooler (dense layer and tanh on a sample's first token) and classifier
 * of sentence pairs, NSP or SOP. A part of the head's block (mlm_head.c). */
#ifndef MEGATRON_POOLER_H
#define MEGATRON_POOLER_H

#include "builder.h"
#include "linear.h"

enum { POOLER_TENSORS = 4 };

struct pooler {
    struct linear dense, classifier;
    struct device_plan *select, *unselect, *add, *clear_bias;
    struct device_plan *tanh, *tanh_backward, *finish[MODES];
    void *x;            /* (samples, h) first tokens; then gradients */
    void *pre, *pooled; /* (samples, h / tp) */
    void *d;            /* (samples, h / tp) gradient of either */
    void *logits;       /* (samples, 2) */
    int has_bias;       /* of the classifier: one tensor-parallel rank adds it */
};

/* POOLER_TENSORS tensors: weights split over the tensor-parallel ranks. */
void pooler_add_parameters(struct builder *builder, struct block *block, int *tensors);
void pooler_lay_out(struct model *m, struct pooler *pooler, struct arena *arena);
void pooler_plan(struct planner *planner, struct model *m, struct pooler *pooler);

/* Add the loss of the pairs; 'stream' is the output of the network. In training also compute the
 * gradients, and that of the first tokens to 'pair' (samples, h). */
void pooler_forward(struct pass *pass, const struct pooler *pooler, const int *tensors,
                    const void *stream, void *pair);

/* Add the gradient of the first tokens to 'dstream' (P, h). */
void pooler_backward(struct pass *pass, const struct pooler *pooler, const void *pair,
                     void *dstream);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A linear layer of a block and its gradients, split over the tensor-parallel ranks:
 * column-parallel layers take the gathered rows of a norm, row-parallel ones leave partial sums
 * that are reduced and scattered.
 *
 * This file decides what fp8 changes: which products are in fp8, who casts their factors, which
 * casts are kept for the backward pass, and where the activation of an MLP is computed. */
#ifndef MEGATRON_LINEAR_H
#define MEGATRON_LINEAR_H

#include "model_private.h"

#include <stdbool.h>

struct linear {
    struct device_plan *forward, *dgrad, *wgrad;
    bool wgrad_bias; /* wgrad, or with fp8 the cast of dy, sums up the bias gradient */
    int fp8;         /* the products in fp8: PRODUCT_... */
    struct device_plan *cast_input, *cast_weight, *cast_gradient; /* of a layer with fp8 */
    enum quantize_source gradient; /* dy and 'pre' are operands from which the gradient is computed
                                      when it is cast */
    bool input_cast;               /* x is e4m3 already: the norm casts it */
};

/* Where the activation between the two layers of an MLP and its gradient are computed. */
enum activation_at {
    ACTIVATION_IN_PRODUCT, /* fused into the products */
    ACTIVATION_IN_CAST,    /* fp8: fused into the casts, from the value before the activation;
                              neither the result nor its gradient is written in bf16 or kept */
    ACTIVATION_APART,      /* fp8: a gate as an operation of its own */
};

enum activation_at linear_activation_at(const struct model *m, const struct block *block);

struct linear_spec {
    /* A layer of attention or MLP, whose kind gives its sizes; or NULL, and one of the head, which
     * is never fp8. */
    const struct block *block;
    enum linear_kind kind;
    int64_t rows, in, out;
    bool head; /* for a profile */
    bool bias; /* added in the forward pass */
    /* Applied to the output; training keeps the value before it. */
    enum activation activation;
    /* The activation of the first layer of an MLP, for the second one. With before_bias its dgrad
     * also sums up the bias gradient of the first one, unless wgrad of that does. */
    enum activation before;
    bool before_bias;
};

/* Create the plans; without gradients in a model that generates. */
void linear_plan(struct planner *planner, struct model *m, struct linear *linear,
                 const struct linear_spec *spec);

/* Choose who casts the output of a norm for the branch after it. */
void linear_choose_cast(struct block *norm, const struct model_config *config,
                        const struct layout *layout);

/* Lay out what is kept of the cast of a layer's input from the forward to the backward pass. */
void linear_lay_out(struct model *m, const struct block *block, enum linear_kind kind,
                    struct fp8_input *kept, struct arena *arena, enum keep keep);

/* y (R, out) = the gathered rows of the norm's output (P, in) times the weights; 'pre' as in
 * operation.h. */
struct column_parallel {
    const struct block *norm;
    int weight, bias;             /* tensors */
    const void *pre;              /* of a gradient that is computed when it is cast */
    const struct fp8_input *kept; /* see linear_lay_out */
};

void column_parallel_forward(struct pass *p, const struct linear *linear,
                             const struct column_parallel *layer, void *y, void *pre);

/* From dy (R, out): scratch.dy (P, h) and the gradients of weight and bias. */
void column_parallel_backward(struct pass *p, const struct linear *linear,
                              const struct column_parallel *layer, void *dy);

/* scratch.x (P, h) = the sum over the tensor-parallel ranks of x (R, in) times the weights. */
void row_parallel_forward(struct pass *p, const struct linear *linear, int weight, void *x,
                          const struct fp8_input *kept);

/* From 'dpart' (P, h), the gradient of the output: dx (R, in) and the gradient of the weights.
 * 'pre' and 'dbias' belong to the layer that produced x. With a gate dx is as wide as 'pre'. */
struct row_parallel_gradient {
    int weight;
    void *x, *dpart, *dx;
    const void *pre;
    void *product; /* of a gate's gradient, as in operation.h */
    float *dbias;
    const struct fp8_input *kept; /* as in the forward pass */
};

void row_parallel_backward(struct pass *p, const struct linear *linear,
                           const struct row_parallel_gradient *layer);

/* The rows of the residual stream, for the sequence-parallel collectives. */
struct sequence_rows stream_rows(const struct model *m);

#endif

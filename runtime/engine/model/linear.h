/* SPDX-License-Identifier: Apache-2.0 */
/* A linear layer of a block and its gradients, split over the tensor-parallel ranks:
 * column-parallel layers take the gathered rows of a norm, row-parallel ones leave partial sums
 * that are reduced and scattered. */
#ifndef MEGATRON_LINEAR_H
#define MEGATRON_LINEAR_H

#include "planner.h"

struct linear {
    struct device_plan *forward, *dgrad, *wgrad;
    int fp8; /* the products in fp8: PRODUCT_... */
    struct device_plan *cast_input, *cast_weight, *cast_gradient; /* of a layer with fp8 */
    enum quantize_source gradient;                                /* see linear_spec */
    int input_cast;                                               /* see linear_spec */
};

struct linear_spec {
    int64_t rows, in, out;
    int bias;                   /* added in the forward pass */
    enum activation activation; /* applied to the output; training keeps the value before it */
    /* dgrad multiplies by the derivative of this activation, of the layer that produced the input,
     * and with before_bias also sums up that layer's bias gradient. */
    enum activation before;
    int before_bias;
    int wgrad_bias; /* wgrad sums up the bias gradient */
    int head;       /* of the model's head, for a profile */
    int fp8;        /* products in fp8: PRODUCT_... */
    /* fp8: x and dy are operands from which the factors are computed when they are cast. */
    enum quantize_source input, gradient;
    enum activation source_activation;
    enum gate source_gate;
    int input_cast; /* fp8: x is e4m3 already */
};

/* Create the plans; without gradients in a model that generates. */
void linear_plan(struct planner *planner, struct model *m, struct linear *linear,
                 const struct linear_spec *spec);
void linear_release(struct linear *linear);

/* y (R, out) = the gathered rows of 'part' (P, in) times the weights; 'pre' as in operation.h. */
struct column_parallel {
    void *part;       /* (P, h) input of this rank, output of a norm */
    int weight, bias; /* tensors */
    const void *pre;  /* of a gradient that is computed when it is cast: its second operand */
    const struct fp8_input *input; /* of a norm that casts; or NULL */
};

void column_parallel_forward(struct model *m, const struct linear *linear,
                             const struct column_parallel *layer, void *y, void *pre);

/* From dy (R, out): scratch.dy (P, h) and the gradients of weight and, if wgrad_bias, bias. */
void column_parallel_backward(struct model *m, const struct linear *linear,
                              const struct column_parallel *layer, void *dy, float *dbias,
                              int accumulate);

/* scratch.x (P, h) = the sum over the tensor-parallel ranks of x (R, in) times the weights. 'input'
 * is what is kept of a cast of x, or NULL. */
void row_parallel_forward(struct model *m, const struct linear *linear, int weight, void *x,
                          const struct fp8_input *input);

/* From 'dpart' (P, h), the gradient of the output: dx (R, in) and the gradient of the weights.
 * 'pre' and 'dbias' belong to the layer that produced x; see linear_spec. With a gate dx is as
 * wide as 'pre'. */
struct row_parallel_gradient {
    int weight;
    void *x, *dpart, *dx;
    const void *pre;
    void *product; /* of a gate's gradient, as in operation.h */
    float *dbias;
    const struct fp8_input *input; /* as in the forward pass */
};

void row_parallel_backward(struct model *m, const struct linear *linear,
                           const struct row_parallel_gradient *layer, int accumulate);

/* The rows of the residual stream, for the sequence-parallel collectives. */
struct sequence_rows stream_rows(const struct model *m);

#endif

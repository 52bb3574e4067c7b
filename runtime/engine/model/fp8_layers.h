/* SPDX-License-Identifier: Apache-2.0 */
/* fp8 in the linear layers of attention and MLP: which of them take part, the scaling state of
 * their tensors, and the casts of a pass.
 *
 * Weights are cast once per step, by the forward pass of its first micro-batch. With 'gather' those
 * of the forward products are in fp8 already: the optimizer casts its shards of the master weights
 * (model_cast), and that pass only transposes them.
 *
 * Inputs and gradients are cast where a product needs them, and their fp8 copies live until the
 * next product. Kept from the forward to the backward pass are the output of a norm that casts it
 * (struct block) and some transposed casts (linear_lay_out). With blockwise scaling no norm casts
 * its output: the transposed values of wgrad are rounded from those in bf16, not from the fp8 ones
 * of the forward pass.
 *
 * The scaling state has an entry for every linear layer of the whole model on every rank, so it
 * does not depend on the layout: at the end of a step one all-reduce over all ranks combines the
 * amaxes.
 */
#ifndef MEGATRON_FP8_LAYERS_H
#define MEGATRON_FP8_LAYERS_H

#include "model_config.h"

/* The linear layers of a layer of the model; others are never fp8. */
enum linear_kind { LINEAR_QKV, LINEAR_PROJECTION, LINEAR_FC1, LINEAR_FC2, LINEAR_KINDS };

/* The products of a linear layer. */
enum { PRODUCT_FORWARD = 1, PRODUCT_DGRAD = 2, PRODUCT_WGRAD = 4 };

/* Sizes of fp8 matrices are multiples of this. */
int64_t fp8_unit(const struct model_config *config);

/* Inverse scales are this many floats apart: a product takes them only from multiples of 16 bytes.
 */
enum { INVERSE_STRIDE = 4 };

/* For messages: "qkv". */
const char *linear_kind_name(enum linear_kind kind);

/* Columns of input and output of a linear layer on a rank. */
void linear_kind_sizes(const struct model_sizes *sizes, enum linear_kind kind, int64_t *in,
                       int64_t *out);

/* Is layer 'number' of the model one with fp8? */
int fp8_in_layer(const struct model_config *config, int64_t number);

/* The products that a linear layer of such a layer computes in fp8; 0 if its sizes do not allow it.
 */
int fp8_products(const struct model_config *config, const struct model_sizes *sizes,
                 enum linear_kind kind);

/* The rules of all scales of a model with fp8. */
struct scaling_rules fp8_rules(const struct model_config *config);

/* The workspace that the CPU device needs for products in fp8; 0 without fp8. */
size_t fp8_cpu_workspace(const struct model_config *config, const struct layout *layout);

/* Is the weight of a linear layer of such a layer kept in fp8 only? */
int fp8_gathers(const struct model_config *config, const struct model_sizes *sizes,
                enum linear_kind kind);

struct arena;
struct block;
struct linear;
struct linear_dgrad_operands;
struct linear_forward_operands;
struct linear_wgrad_operands;
struct model;
struct operand_scale;
struct planner;

/* A weight in fp8. */
struct fp8_weight {
    int64_t entry;        /* first tensor of its layer in the scaling state; -1: not fp8 */
    int products;         /* of its layer that are fp8 */
    void *rows, *columns; /* (out, in), (in, out); NULL if not needed */
    int gathered;         /* 'rows' is NULL: the weight itself is e4m3 */
    int64_t in, out;
    float *rows_inverse, *columns_inverse; /* of blockwise scaling: 1 / the scales of both */
    float *squares;                        /* gathered: (out / 128, in / 128) amaxes */
    struct device_plan *whole;             /* gathered: the cast of all of it by squares */
};

/* Of a model. */
struct fp8_layers {
    struct scaling_rules rules;
    struct fp8_weight *weights; /* one per tensor of the model; NULL: no fp8 */
    struct device_plan *end;
    struct device_plan *weight_scales, *clear_squares; /* of weights that are kept in fp8 */
    int fresh;                                         /* the pass casts weights */
    int records;                                       /* the pass records amaxes */
    int settled;    /* no scale is 0: none has to be found from a tensor itself */
    float *kept;    /* device memory of the scaling state; see fp8_layers_kept */
    float *amax;    /* (count) */
    float *inverse; /* (count, INVERSE_STRIDE), of which the first is used */
    float *used;    /* (count): the scales of weights that are kept in fp8 */
    float *squares; /* (square_count): with blockwise scaling, amaxes of their squares */
    int64_t square_count;
    void *scratch[2];        /* an input or a gradient by row; a gradient by column */
    float *block_inverse[2]; /* blockwise: 1 / the scales of both */
};

/* The scaling state that outlives a step: the position in the history (an int32), then the scales
 * (count) and the history (length, count). */
static inline int64_t fp8_layers_kept(const struct scaling_rules *rules)
{
    return 1 + rules->count * (1 + rules->length);
}

static inline float *fp8_scales(const struct fp8_layers *f)
{
    return f->kept + 1;
}

/* Parts of creating a model. */
void fp8_layers_create(struct model *m);
void fp8_layers_lay_out(struct model *m, struct arena *arena);
int fp8_layers_prepare(struct model *m, struct error *err);

/* fp8_gather.c: the same for weights that are kept in fp8; and cast them all from
 * start_weights, which waits. */
void fp8_gather_lay_out(struct model *m, struct arena *arena);
void fp8_gather_prepare(struct planner *planner, struct model *m);
int fp8_gather_adopt(struct model *m, struct error *err);

/* An input whose cast is kept from the forward to the backward pass of a micro-batch. */
struct fp8_input {
    void *columns;  /* (in, R) written by the forward pass, or NULL: wgrad makes it */
    float *inverse; /* 1 / its scale, blockwise those of 'columns'; NULL: nothing is kept */
};

/* Lay out 'inverse' for an input with 'in' columns. */
void fp8_input_lay_out(struct model *m, struct fp8_input *input, int64_t in, struct arena *arena);

/* Lay out all of an input whose transposed cast is kept for wgrad, if the layer has it in fp8. */
void fp8_input_keep(struct model *m, const struct block *block, enum linear_kind kind,
                    struct fp8_input *input, struct arena *arena);

/* Before a product: cast its factors, if it is fp8, and put them into the operands. 'tensor' is the
 * weight. dgrad comes before wgrad and takes the bias gradient of wgrad. */
void fp8_forward(struct model *m, const struct linear *linear, int tensor,
                 const struct fp8_input *input, struct linear_forward_operands *operands);
void fp8_dgrad(struct model *m, const struct linear *linear, int tensor,
               struct linear_dgrad_operands *operands, float *dbias, int accumulate);
void fp8_wgrad(struct model *m, const struct linear *linear, int tensor,
               const struct fp8_input *input, struct linear_wgrad_operands *operands);

/* For a norm that casts its output, the input of the layer with this weight: the scale with which
 * its kernel writes e4m3 and, as long as scales are not settled, a cast of the output. */
struct operand_scale fp8_input_scale(struct model *m, int tensor, const struct fp8_input *input);
void fp8_cast_input(struct model *m, struct device_plan *plan, int tensor,
                    const struct fp8_input *input, const void *x, void *rows);

#endif

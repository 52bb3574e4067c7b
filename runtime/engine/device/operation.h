/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of training that a device performs (operations.def lists them): its shape, from
 * which a plan is created, and its operands, which a run takes.
 *
 * - Matrices are row-major and dense unless strides are given. A row is one token; rows are ordered
 *   sample by sample: row = sample * sequence + position. Sequence parallelism splits rows into
 *   equal, consecutive parts.
 * - Weights are (out, in), as in PyTorch. 'type' is the type of weights and activations; operands
 *   that can have another type specify it separately. Statistics, losses, master weights and
 *   moments are fp32. A device rejects unsupported types when the plan is created.
 * - Pointers are device memory, aligned to DEVICE_ALIGNMENT if they are the start of a tensor in an
 *   arena and at least to their element otherwise. Input and output may overlap only if a comment
 *   allows it.
 * - Gradients of weights, biases and norms are written directly to main gradients: with
 *   'accumulate' 0 the call overwrites them (first micro-batch, so nothing is ever cleared), with 1
 *   it adds. Those of matrices and tables have the type 'gradient' of their shape, fp32 or bf16;
 *   then each call rounds its result, and a product possibly before it is added, too. Those of
 *   vectors are fp32. */
#ifndef MEGATRON_OPERATION_H
#define MEGATRON_OPERATION_H

#include <stddef.h>
#include <stdint.h>
#include "scaling.h"
#include "step.h"

enum device_type {
    TYPE_FP32,
    TYPE_BF16,
    TYPE_FP16,
    TYPE_FP64,
    TYPE_INT32,
    TYPE_INT64,
    TYPE_E4M3, /* fp8 with 4 bits of exponent: activations and weights */
    TYPE_E5M2, /* fp8 with 5 bits of exponent: gradients */
};

static inline size_t type_size(enum device_type type)
{
    switch (type) {
    case TYPE_E4M3:
    case TYPE_E5M2:
        return 1;
    case TYPE_BF16:
    case TYPE_FP16:
        return 2;
    case TYPE_FP64:
    case TYPE_INT64:
        return 8;
    default:
        return 4;
    }
}

/* Scaling of an fp8 operand: an element is the value times *scale. A kernel that reads the operand
 * multiplies by *inverse = 1 / *scale; a kernel that writes it multiplies by *scale, which is not
 * 0, saturates, raises *amax (unless that is NULL) to the largest absolute value before scaling,
 * and sets *inverse. All are fp32 in device memory, and NULL for all other types; the address of
 * *inverse is a multiple of 16 bytes. With blockwise scaling only 'inverse' is used: the inverses
 * of all blocks, in the order of scaling.h. */
struct operand_scale {
    const float *scale;
    float *amax;
    float *inverse;
};

/* OPERATION_LINEAR_FORWARD and so on. */
enum operation_kind {
#define OPERATION(kind, ...) OPERATION_##kind,
#include "operations.def"
    OPERATION_COUNT,
};

/* Its label in NVTX ranges. */
static inline const char *operation_name(enum operation_kind kind)
{
    static const char *const names[] = {
#define OPERATION(kind, name, shape, category, label, ...) label,
#include "operations.def"
    };

    return names[kind];
}

enum activation {
    ACTIVATION_NONE,
    ACTIVATION_GELU_TANH, /* Megatron's and GPT-2's approximation by tanh */
    ACTIVATION_GELU_ERF,  /* x * normal CDF(x): BERT, RoBERTa and GPT-NeoX */
    ACTIVATION_TANH,      /* of OPERATION_ACTIVATION only: BERT's pooler */
    ACTIVATION_SQUARED_RELU,
    /* Gates, in the order of enum gate; of linear layers only. */
    ACTIVATION_SWIGLU,
    ACTIVATION_GEGLU,
    ACTIVATION_QUICK_GEGLU,
};

/* y = f(gate) * up, where a row of x is (gate, up), 'cols' each. f is silu for SwiGLU, GELU for
 * GeGLU, and x * sigmoid(1.702 x) for quick GeGLU. */
enum gate { GATE_SILU, GATE_GELU_TANH, GATE_QUICK_GELU };

static inline enum activation gate_activation(enum gate gate)
{
    return (enum activation)(ACTIVATION_SWIGLU + (int)gate);
}

static inline int is_gated(enum activation activation)
{
    return activation >= ACTIVATION_SWIGLU;
}

/* The gate of a gated activation. */
static inline enum gate activation_gate(enum activation activation)
{
    return (enum gate)((int)activation - ACTIVATION_SWIGLU);
}

/* y = activation(x W^T + bias).
 * LINEAR_FORWARD: 'bias' and 'activation' are the epilogue; with save_pre the value before the
 *   activation is also written to 'pre'.
 * LINEAR_DGRAD: dx = dy W. With 'activation' the result is multiplied by the activation's gradient
 *   at 'pre' (rows, in), the saved value of the layer that produced x; with 'bias' the column sums
 *   of the result are that layer's bias gradient 'dbias' (in).
 * LINEAR_WGRAD: dW = dy^T x; with 'bias' also dbias (out) = column sums of dy. 'activation' NONE.
 *
 * With a gate y has half as many columns as 'out', and 'pre' is always written: y is
 * OPERATION_SWIGLU of 'pre', which is rounded to the type. DGRAD: dx and 'pre' have 2 * in columns,
 * and dx is OPERATION_SWIGLU_BACKWARD of the rounded product dy W, which may be written to
 * 'product'. 'bias' is 0, and no operand is fp8.
 *
 * fp8: both factors of a product are fp8, with the inverse of their scale, and its result is not.
 * Tensor cores take 8-bit factors only with the summed dimension contiguous, so DGRAD takes the
 * weight transposed (in, out), and WGRAD takes dy (out, rows) and x (in, rows), without 'bias'.
 * OPERATION_QUANTIZE creates both layouts. With 'blocks' the scales are blockwise: of 128 x 128
 * elements of the weight, and of 128 elements along the summed dimension of x and dy; rows, in and
 * out are multiples of 128. */
struct linear_types {
    enum device_type x, weight, y; /* of x and dx; of weight; of y and dy */
    enum device_type pre;          /* of pre and bias */
    enum device_type gradient;     /* of dweight */
};

/* The same type for all operands, and fp32 main gradients. */
static inline struct linear_types linear_types(enum device_type type)
{
    struct linear_types types = {type, type, type, type, TYPE_FP32};

    return types;
}

static inline int linear_types_equal(const struct linear_types *types)
{
    return types->x == types->weight && types->x == types->y && types->x == types->pre;
}

struct linear_shape {
    int64_t rows, in, out;
    struct linear_types types;
    int bias;
    enum activation activation;
    int save_pre;
    int blocks;
};

/* Is this a layer that the comment above allows, as far as gates are concerned? */
static inline int linear_gate_is_valid(enum operation_kind kind, const struct linear_shape *shape)
{
    if (!is_gated(shape->activation))
        return 1;
    return type_size(shape->types.x) > 1 && linear_types_equal(&shape->types) &&
           (kind == OPERATION_LINEAR_FORWARD ? shape->out % 2 == 0
                                             : kind == OPERATION_LINEAR_DGRAD && !shape->bias);
}

struct linear_forward_operands {
    const void *x;      /* (rows, in) */
    const void *weight; /* (out, in) */
    const void *bias;   /* (out) */
    void *y;            /* (rows, out); with a gate (rows, out / 2) */
    void *pre;          /* (rows, out) */
    struct operand_scale x_scale, weight_scale, y_scale;
};

struct linear_dgrad_operands {
    const void *dy;     /* (rows, out) */
    const void *weight; /* (out, in) */
    const void *pre;    /* (rows, in); with a gate (rows, 2 * in) */
    void *dx;           /* as 'pre'; with a gate it may be the memory of 'pre' */
    void *product;      /* (rows, in) scratch memory, with a gate */
    float *dbias;       /* (in) main gradient of the layer before */
    int accumulate;     /* of dbias */
    struct operand_scale dy_scale, weight_scale, dx_scale;
};

struct linear_wgrad_operands {
    const void *dy; /* (rows, out) */
    const void *x;  /* (rows, in) */
    void *dweight;  /* (out, in) main gradient */
    float *dbias;   /* (out) main gradient */
    int accumulate; /* of both */
    struct operand_scale dy_scale, x_scale;
};

/* y = activation(x), to recompute an activation that was not kept; with 'backward' y = dy * the
 * derivative at x. */
struct activation_shape {
    int64_t count;
    enum device_type type, y_type; /* of x and dy; of y, not fp8 with 'backward' */
    enum activation activation;
    int backward;
};

struct activation_operands {
    const void *x;
    void *y; /* may be the memory of x or dy */
    struct operand_scale y_scale;
    const void *dy;
};

/* One step of the residual stream, all of it optional:
 *     sum = residual + dropout(x + bias)        y = norm(sum) * weight (+ norm_bias)
 * Without 'input' there is no x: sum is 'residual', 'sum' is not written. Without 'residual' there
 * is no addend: sum = dropout(x + bias). With 'add_one' the factor is weight + 1. With NORM_NONE
 * there is no y, mean and rstd. Row r, column c is dropped by element row_index[r] * cols + c of
 * (seed, purpose, iteration). If y is fp8, it is rounded to 'type' first: a cast of y in 'type'
 * gives the same. */
enum norm { NORM_NONE, NORM_LAYER, NORM_RMS };

struct residual_norm_shape {
    int64_t rows, cols;
    enum device_type type, y_type; /* of all but y; of y */
    enum norm norm;
    double epsilon;
    int input, bias, residual;
    double dropout;
    int add_one;
};

struct residual_norm_operands {
    const void *x;            /* (rows, cols) */
    const void *bias;         /* (cols) */
    const void *residual;     /* (rows, cols) */
    void *sum;                /* (rows, cols); may be the memory of 'residual' or 'x' */
    const void *weight;       /* (cols) */
    const void *norm_bias;    /* (cols), NORM_LAYER only */
    void *y;                  /* (rows, cols); may be the memory of 'x' */
    float *mean, *rstd;       /* (rows); mean for NORM_LAYER only */
    const int64_t *row_index; /* (rows) number of each row in the global batch; for dropout */
    const struct step_state *state;
    uint32_t purpose;
    struct operand_scale y_scale;
};

/* With d = dsum + norm'(dy): the gradients of all inputs.
 * dresidual = d; dx = dropout'(d); dbias = column sums of dx. If dropout is 0, dx would equal
 * dresidual: it is not written, and the caller uses dresidual. Without 'residual' in the shape
 * dresidual is scratch memory only. dsum NULL counts as 0 (the last norm of the model); dy is
 * unused with NORM_NONE. With a second reader of y, dy is dy + dy_more, rounded to 'type'; then
 * there is no dsum. */
struct residual_norm_backward_operands {
    const void *dy;           /* (rows, cols) */
    const void *dy_more;      /* (rows, cols) gradient of y by its second reader, or NULL */
    const void *dsum;         /* (rows, cols) gradient of sum by its other readers, or NULL */
    const void *sum;          /* (rows, cols) of the forward pass */
    const void *weight;       /* (cols) */
    const float *mean, *rstd; /* (rows) of the forward pass */
    void *dresidual;          /* (rows, cols); may be the memory of dsum, dy or dy_more */
    void *dx;                 /* (rows, cols); not the memory of dresidual */
    float *dweight, *dnorm_bias, *dbias; /* (cols) main gradients */
    int accumulate;                      /* of these three */
    const int64_t *row_index;
    const struct step_state *state;
    uint32_t purpose;
};

/* Softmax attention of 'heads' query heads on 'kv_heads' key and value heads (query head h uses
 * h / (heads / kv_heads)). Element (sample b, row s, head h, channel c) of a tensor is at offset
 * b * batch + s * row + h * head + c of its pointer, in elements; the pointer itself is an aligned
 * address plus a multiple of these strides.
 *
 * Which keys a query sees: query s is at position s + kv_rows - q_rows among the keys. With
 * 'causal' it sees keys up to its own position, with 'documents' none before document_start, with
 * 'ends' none from document_end on. Bidirectional attention within packed documents is 'documents'
 * and 'ends' without 'causal'; padding at the end of a sample is 'ends' alone. Every query must see
 * at least one key: a row of padding sees, for example, itself.
 *
 * With 'cached' (forward only, with 'causal', without dropout and 'ends') keys and values are those
 * of a KV cache of kv_rows positions, and 'positions' has the position of each query. Entries after
 * the largest position of a sample are not used, but must be finite numbers. */
struct attention_stride {
    int64_t batch, row, head;
};

struct attention_shape {
    int64_t batch, q_rows, kv_rows, heads, kv_heads, head_size;
    enum device_type type;
    struct attention_stride q, kv, out; /* of q and dq; of k, v, dk, dv; of out and dout */
    double scale;                       /* scale of the scores, usually 1 / sqrt(head_size) */
    int causal, documents, ends, cached;
    /* Probability (sample, head, query, key) is dropped by element
     * ((sample * all_heads + first_head + head) * sequence + query) * sequence + key, where
     * sample and query come from row_index = sample * sequence + query position. */
    double dropout;
    int64_t all_heads, first_head, sequence;
    double softcap; /* scores become softcap * tanh(scores / softcap); 0: they stay as they are */
};

struct attention_operands {
    const void *q, *k, *v;
    void *out;
    float *lse;                    /* (batch, heads, q_rows) log of the sum of exp(scores) */
    const int32_t *document_start; /* (batch, q_rows) first key each query sees */
    const int64_t *row_index;      /* (batch, q_rows); for dropout */
    const struct step_state *state;
    uint32_t purpose;
    const int32_t *positions;    /* (batch, q_rows) position of each query; for 'cached' */
    const int32_t *document_end; /* (batch, q_rows) one past the last key each query sees */
};

struct attention_backward_operands {
    const void *q, *k, *v, *out, *dout;
    const float *lse;
    void *dq, *dk, *dv; /* overwritten */
    const int32_t *document_start;
    const int64_t *row_index;
    const struct step_state *state;
    uint32_t purpose;
    const int32_t *document_end;
};

/* Rotate, in place, the first 'rotary' channels of 'heads' heads of each row: channel c < rotary/2
 * pairs with c + rotary/2; (a, b) -> (a cos - b sin, b cos + a sin), with the sine negated for the
 * gradient ('backward'). Query and key heads are adjacent, so one call rotates both. */
struct rope_shape {
    int64_t rows, heads, head_size, rotary;
    int64_t row_stride; /* elements from one row to the next */
    enum device_type type;
    int backward;
};

struct rope_operands {
    void *x;                    /* (rows, heads, head_size), row_stride apart */
    const int32_t *positions;   /* (rows) */
    const float *cosine, *sine; /* (positions, rotary / 2) */
};

/* y = f(gate) * up; see enum gate. */
struct swiglu_shape {
    int64_t rows, cols;
    enum device_type type, y_type; /* of x and dy; of y and dx */
    enum gate gate;
};

struct swiglu_operands {
    const void *x; /* (rows, 2 * cols) */
    void *y;       /* (rows, cols) */
    struct operand_scale y_scale;
};

struct swiglu_backward_operands {
    const void *dy; /* (rows, cols) */
    const void *x;  /* (rows, 2 * cols) */
    void *dx;       /* (rows, 2 * cols); may be the memory of x */
    struct operand_scale dx_scale;
};

/* out = table[index - first] if 0 <= index - first < table_rows, else 0; with 'second' also
 * + second_table[second_index]; with 'accumulate' in the shape + the previous value of 'out'. */
struct embedding_shape {
    int64_t rows, cols;
    int64_t first, table_rows;
    enum device_type type;
    int second;
    int accumulate;
    enum device_type gradient; /* of dtable */
};

struct embedding_operands {
    const int32_t *index; /* (rows) */
    const void *table;    /* (table_rows, cols) */
    const int32_t *second_index;
    const void *second_table;
    void *out; /* (rows, cols) */
};

/* dtable[index - first] += dout, rows of one index in ascending order. A table_rows x cols main
 * gradient is cleared first unless 'accumulate'. One table per call ('second' is ignored). */
struct embedding_backward_operands {
    const int32_t *index; /* (rows) */
    const void *dout;     /* (rows, cols) */
    void *dtable;         /* (table_rows, cols) */
    int accumulate;
};

/* Cross entropy around the collective, vocabulary-parallel: this rank holds columns first .. first
 * + cols - 1 of the logits; columns from 'vocabulary' on are padding and ignored.
 *
 * PARTIAL: per row maximum, sum of exp(logit - maximum), and the target's logit (0 if another rank
 * has it). A rank with padding only returns maximum -inf and sum 0.
 * FINISH: combines the partials of 'parts' ranks (all-gathered: (parts, 3, rows)), computes loss[r]
 * = log(sum) + max - target, adds *logged * the sum of weight[r] * loss[r] to state->loss (of a
 * binary head also to state->pair_loss), and turns the logits into the gradient (softmax - onehot)
 * * weight[r] * state->loss_scale in place (padding gets 0). Without 'backward' the logits are
 * unchanged. With one part 'partials' may be NULL: FINISH then does both halves in one pass. With
 * 'softcap' the logits are the result of OPERATION_SOFTCAP, and the gradient is that of its input.
 */
struct cross_entropy_shape {
    int64_t rows, cols;
    int64_t first, vocabulary;
    enum device_type type; /* of the logits */
    int parts;
    int backward;
    double softcap; /* 0: none */
    int pair;       /* the loss of a binary head */
};

struct cross_entropy_partial_operands {
    const void *logits;     /* (rows, cols) */
    const int32_t *targets; /* (rows) */
    float *partial;         /* (3, rows): maximum, sum, target */
};

struct cross_entropy_finish_operands {
    void *logits; /* (rows, cols) */
    const int32_t *targets;
    const float *partials; /* (parts, 3, rows), or NULL for one part */
    const float *weight;   /* (rows) weight of each token in the step's loss; 0: masked, whatever
                              its logits are */
    float *loss;           /* (rows) or NULL */
    struct step_state *state;
    const float *logged; /* one number: further weight of all tokens in state->loss; NULL: 1 */
};

/* Adam with decoupled weight decay on 'count' elements, the first 'decayed' of them with decay:
 * g = grad * state->grad_factor; moments are divided by state's corrections; nothing changes if
 * state->skip. SGD with momentum 'beta1' in moment1, as torch.optim.SGD: g += decay * weight;
 * moment1 = beta1 * moment1 + g; weight -= lr * moment1. */
struct adam_shape {
    int64_t count, decayed;
    double beta1, beta2, epsilon;
    enum device_type type; /* of 'weights' */
    enum optimizer_kind kind;
    int decoupled; /* the learning rate is state->decoupled_lr */
    /* Adam: the weights are fp16 numbers without a copy in fp32. 'type' is fp16 and 'master' NULL;
     * CPUs have the same numbers in fp32. */
    int half;
    enum device_type gradient; /* of 'grad' */
    /* Adam: of the moments, fp32 or bf16; results are rounded to nearest. */
    enum device_type moment1, moment2;
};

struct adam_operands {
    const void *grad;
    float *master;
    void *moment1, *moment2;
    void *weights; /* the copy that kernels read; NULL if that is 'master' itself or in fp8 */
    const struct step_state *state;
    struct operand_scale weights_scale;
};

/* The parts of Muon around the products of matrices, on 'count' elements; the first and the last do
 * nothing if state->skip.
 * MUON_MOMENTUM: g = x * state->grad_factor; moment = momentum * moment + (1 - momentum) * g; x
 *   becomes moment, or with 'nesterov' momentum * moment + (1 - momentum) * g.
 * MUON_NORMALIZE: y = x / max(sqrt(*square_sum), 1e-7).
 * MUON_UPDATE: master = master * (1 - lr * weight decay) - lr * x, with lr and decay of the state.
 */
enum muon_part { MUON_MOMENTUM, MUON_NORMALIZE, MUON_UPDATE };

struct muon_shape {
    int64_t count;
    enum muon_part part;
    double momentum;
    int nesterov;
    enum device_type type; /* of y and weights */
};

struct muon_operands {
    float *x, *moment, *master;
    const double *square_sum;
    void *y;       /* may be the memory of x if fp32 */
    void *weights; /* as in struct adam_operands */
    const struct step_state *state;
};

/* *sum += sum of squares, in double precision, in an order fixed by 'count'. */
struct square_sum_shape {
    int64_t count;
    enum device_type type; /* of x: fp32 or bf16 */
};

struct square_sum_operands {
    const void *x;
    double *sum;
};

/* The rules of step.h. */
struct step_shape {
    struct step_rules rules;
    enum step_phase phase;
};

struct step_operands {
    struct step_state *state;
};

struct convert_shape {
    int64_t count;
    enum device_type from, to;
    int half; /* on CPUs: round to fp16 */
};

struct convert_operands {
    const void *from;
    void *to; /* may be the memory of 'from' if no wider */
};

/* y += x */
struct add_shape {
    int64_t count;
    enum device_type type;
};

struct add_operands {
    const void *x;
    void *y;
};

/* out[r] = x[index[r]]; rows with index < 0 become 0. With 'scatter' the other way: out[index[r]] =
 * x[r]; rows with index < 0 are skipped, and no two rows may have the same index. */
struct gather_rows_shape {
    int64_t rows, cols;
    enum device_type type;
    int64_t x_stride, out_stride; /* elements from row to row; 0: cols */
    int scatter;
};

struct gather_rows_operands {
    const void *x; /* (any, cols) */
    const int32_t *index;
    void *out; /* (rows, cols) */
};

/* Normally distributed numbers: element (r, c) is number (first_row + r) * all_cols + first_col + c
 * of (seed, purpose, 0) as defined in rng.h, times 'deviation'. */
struct normal_shape {
    int64_t rows, cols, first_row, first_col, all_cols;
    double deviation;
};

struct normal_operands {
    float *out; /* (rows, cols) */
    uint64_t seed;
    uint32_t purpose;
};

struct fill_shape {
    int64_t count;
    enum device_type type;
    double value;
};

struct fill_operands {
    void *out;
};

/* Norms of the query and key heads of packed projections. A row of x is counts[0] vectors of
 * queries, widths[0] channels each, counts[1] of keys, and 'rest' columns that are copied. All
 * vectors of queries have one weight, all vectors of keys another. */
struct head_norm_shape {
    int64_t rows, counts[2], widths[2], rest;
    enum device_type type;
    enum norm norm;
    double epsilon;
    int add_one; /* the factor is weight + 1 */
};

struct head_norm_operands {
    const void *x;                   /* (rows, columns) */
    void *y;                         /* (rows, columns) */
    const void *weight[2], *bias[2]; /* (width); biases for NORM_LAYER only */
    float *mean, *rstd;              /* (rows, counts[0] + counts[1]); mean for NORM_LAYER only */
};

/* 'd' is the gradient of y and becomes that of x. */
struct head_norm_backward_operands {
    void *d;       /* (rows, columns) */
    const void *x; /* (rows, columns) */
    const void *weight[2];
    const float *mean, *rstd;
    float *dweight[2], *dbias[2]; /* (width) main gradients */
    int accumulate;               /* of these */
};

/* x *= factor */
struct scale_shape {
    int64_t count;
    enum device_type type;
    double factor;
};

struct scale_operands {
    void *x;
};

/* x = cap * tanh(x / cap) */
struct softcap_shape {
    int64_t count;
    enum device_type type;
    double cap;
};

struct softcap_operands {
    void *x;
};

/* y = x, at most 'limit' and at least -limit. Backward: y is the gradient of the result and becomes
 * that of x, which is 0 where x is beyond the limit. */
struct clip_shape {
    int64_t count;
    enum device_type type;
    double limit;
    int backward;
};

struct clip_operands {
    const void *x; /* of the forward pass; not the memory of y */
    void *y;
};

/* Cast a matrix to fp8: rows and columns get its elements times the scale, rounded to the nearest
 * (ties to even) and saturated. If *scale is 0, the scale is scaling_factor(largest magnitude), as
 * scaling.h defines it. With 'bias' the column sums are the main gradient 'dbias'. The matrix is x,
 * or what one of these operations would compute, which is then not written anywhere. If x is of
 * type 'to' already, it is only transposed: 'columns' and x are all that is used. Master weights
 * are fp32 on every device; then 'columns' is NULL, 'rows' may be if only amax is wanted, and
 * 'part' is SCALED_WHOLE: see OPERATION_QUANTIZE_SQUARES.
 *
 * Blockwise ('part' is not SCALED_WHOLE): every block of 'rows', and every block of 'columns', has
 * a scale of its own, scaling_block_factor(its largest magnitude); *scale is not used. The vectors
 * of 'columns' are other elements than those of 'rows': both are rounded from the matrix. Rows and
 * columns are multiples of 128, with QUANTIZE_GATE_GRADIENT columns of 256. */
enum quantize_source {
    QUANTIZE_MATRIX,              /* x */
    QUANTIZE_ACTIVATION,          /* activation(x) */
    QUANTIZE_ACTIVATION_GRADIENT, /* dy * the activation's derivative at x */
    QUANTIZE_GATE,                /* OPERATION_SWIGLU of x (rows, 2 * cols) */
    QUANTIZE_GATE_GRADIENT,       /* its gradient at x (rows, cols), from dy (rows, cols / 2) */
};

struct quantize_shape {
    int64_t rows, cols; /* of the matrix that is cast */
    enum device_type from, to;
    int margin; /* of a scale that is found from the matrix */
    int bias;
    enum quantize_source source;
    enum activation activation;
    enum gate gate;
    enum scaled_part part;
};

struct quantize_operands {
    const void *x;
    void *rows;    /* (rows, cols), or NULL */
    void *columns; /* (cols, rows), the transposed matrix, or NULL */
    const float *scale;
    float *amax;            /* or NULL: raised to the largest magnitude; NaN is the largest */
    int scaled;             /* *scale is known not to be 0 */
    float *inverse;         /* or NULL: 1 / the scale that was used; blockwise: those of 'rows' */
    float *columns_inverse; /* blockwise: those of 'columns' */
    float *dbias;           /* (cols) */
    int accumulate;         /* of dbias */
    const void *dy;         /* of gradients */
};

/* End of a step: the amax of all fp8 tensors enters their history and gives the scales of the next
 * step, by the rules of scaling.h; amax becomes 0. If one is Inf or NaN, state->norm_squared
 * becomes Inf, so that the step is skipped, and state->overflows counts it. */
struct scaling_shape {
    struct scaling_rules rules;
};

struct scaling_operands {
    float *scale, *amax; /* (count) */
    float *history;      /* (length, count), a ring */
    int32_t *position;   /* where the next amax goes */
    struct step_state *state;
};

/* Before weights are cast in parts, which are on several ranks: the scale of every weight among
 * 'count' tensors, as scaling_weight of scaling.h defines it, and its inverse. */
struct weight_scales_shape {
    int64_t count;
    int64_t stride; /* of inverses, in floats */
    int margin;
};

struct weight_scales_operands {
    const float *scale, *amax; /* (count) */
    float *used;               /* (count) */
    float *inverse;            /* (count, stride), of which the first is written */
};

/* A part of a weight with blockwise scales: 'count' elements from 'first' on of a (rows, cols)
 * matrix of master weights, all multiples of 128. Its squares may be on several ranks.
 * SQUARES_AMAX: raise the amaxes of squares, and 'amax', to the largest magnitudes; NaN is the
 *   largest.
 * SQUARES_CAST: the elements in e4m3, with the scales of these amaxes.
 * SQUARES_INVERSE: the inverses of the scales of all squares, for (rows, cols) and (cols, rows), in
 *   the order of scaling.h. */
enum squares_part { SQUARES_AMAX, SQUARES_CAST, SQUARES_INVERSE };

struct quantize_squares_shape {
    int64_t rows, cols, first, count;
};

struct quantize_squares_operands {
    enum squares_part part;
    const float *x;                   /* (count) */
    uint8_t *out;                     /* (count) */
    float *squares;                   /* (rows / 128, cols / 128) amaxes */
    float *amax;                      /* of the whole weight */
    float *inverse, *columns_inverse; /* of squares */
};

struct operation {
    enum operation_kind kind;
    int head; /* part of the model's head; for profiling */
    union {
#define SHAPE(name) struct name##_shape name;
#include "operations.def"
    };
};

#endif

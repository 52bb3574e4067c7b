/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of attention: the reference in double precision, an attention under test, and
 * its dropout mask. */
#ifndef MEGATRON_DEVICE_ATTENTION_H
#define MEGATRON_DEVICE_ATTENTION_H

#include "device_test.h"

/* The inputs of the reference; the strides of the shape apply to these pointers, too. */
struct attention_case {
    struct attention_shape shape;
    const double *q, *k, *v;
    const int32_t *start;     /* (batch, q_rows) first key each query sees, for 'documents' */
    const int32_t *end;       /* (batch, q_rows) one past the last key it sees, for 'ends' */
    const int32_t *positions; /* (batch, q_rows) position of each query, for 'cached' */
    const double *keep;       /* (batch, heads, q_rows, kv_rows) factors of the probabilities by
                                 dropout; NULL: none */
    double *lse; /* NULL, or (batch, heads, q_rows), written by the forward direction */
};

/* The number of elements of keep. */
int64_t attention_scores(const struct attention_shape *shape);

/* The probabilities before dropout, laid out like keep; 0 for keys that are not seen. */
void attention_probabilities(const struct attention_case *c, double *p);

/* The forward direction. 'context' is a struct attention_case. */
void attention_reference(void *context, double *out);

/* A gradient laid out like its operand, and for each element the scale of its rounding errors. */
struct attention_gradient {
    double *v, *size;
};

/* Adds to the existing values. */
void attention_gradient_reference(const struct attention_case *c, const double *dout,
                                  struct attention_gradient dq, struct attention_gradient dk,
                                  struct attention_gradient dv);

/* An attention whose queries, keys and values are adjacent in rows of heads. 'kv' has room for
 * queries, too, and 'q' for keys and values: these must not be touched. */
struct attention_test {
    struct attention_shape shape;
    size_t k_at, v_at; /* offsets of keys and values in a row */
    struct tensor q, kv, out, dout, dq, dkv, lse;
    int64_t *rows;
    int32_t *start, *end;
    struct device_plan *forward;
    struct attention_operands operands; /* of the forward direction */
    struct attention_case reference;
};

/* Run forward with values that show what is dropped, check that, and return the mask, laid out like
 * keep; the caller frees it. The operands are unchanged, the results are not. */
double *attention_mask(struct attention_test *t);

#endif

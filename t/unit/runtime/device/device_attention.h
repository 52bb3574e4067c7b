/* What the tests of attention share: the reference in double precision, an attention under test,
 * and the mask of its dropout. */
#ifndef MEGATRON_DEVICE_ATTENTION_H
#define MEGATRON_DEVICE_ATTENTION_H

#include "device_test.h"

/* What the reference computes with; the strides of the shape are those of these pointers, too. */
struct attention_case {
    struct attention_shape shape;
    const double *q, *k, *v;
    const int32_t *start;     /* (batch, q_rows) first key each query sees, of 'documents' */
    const int32_t *end;       /* (batch, q_rows) one past the last key it sees, of 'ends' */
    const int32_t *positions; /* (batch, q_rows) place of each query, of 'cached' */
    const double *keep;       /* (batch, heads, q_rows, kv_rows) what dropout multiplies the
                                 probabilities with; NULL: there is none */
    double *lse; /* NULL, or (batch, heads, q_rows) for the forward direction to fill */
};

/* The elements of keep. */
int64_t attention_scores(const struct attention_shape *shape);

/* The probabilities before dropout, laid out like keep; 0 for keys that are not seen. */
void attention_probabilities(const struct attention_case *c, double *p);

/* The forward direction. 'context' is a struct attention_case. */
void attention_reference(void *context, double *out);

/* A gradient laid out like its operand, and for each element what its rounding errors grow with. */
struct attention_gradient {
    double *v, *size;
};

/* Adds to what is there. */
void attention_gradient_reference(const struct attention_case *c, const double *dout,
                                  struct attention_gradient dq, struct attention_gradient dk,
                                  struct attention_gradient dv);

/* An attention whose queries, keys and values lie side by side in rows of heads. 'kv' has room for
 * queries, too, and 'q' for keys and values: nothing may touch these. */
struct attention_test {
    struct attention_shape shape;
    size_t k_at, v_at; /* where keys and values begin in a row */
    struct tensor q, kv, out, dout, dq, dkv, lse;
    int64_t *rows;
    int32_t *start, *end;
    struct device_plan *forward;
    struct attention_operands operands; /* of the forward direction */
    struct attention_case reference;
};

/* Run forward with values that show what is dropped, check that, and return the mask, laid out like
 * keep; to be freed. The operands are as before, the results are not. */
double *attention_mask(struct attention_test *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A fake of cuBLASLt, of our own products and of the parts of CUDA needed to time them, without a
 * GPU: nothing is computed, a product of the library takes about a millisecond (see 'length') of a
 * clock that only products advance, and one of ours takes half of it. */
#ifndef FAKE_PRODUCTS_H
#define FAKE_PRODUCTS_H

#include <stddef.h>

struct fake {
    int epilogue;        /* products that misbehave; 0: all products */
    int fails;           /* they cannot be started */
    int fails_in_layers; /* only in a layer, not when they are timed by themselves */
    int breaks;          /* a neighbor of an offered algorithm breaks the GPU */
    int lasts;           /* but only after so many runs in a row */
    int tires;           /* all but the first algorithm are slow unless the GPU rests */
    int length;          /* milliseconds of a product; 0: one */
    int offered;         /* how many algorithms the library offers; 0: three */
    int best;           /* the number of an algorithm that takes four fifths of the time; 0: none */
    unsigned timed;     /* bits of the algorithms that have run */
    unsigned unloaded;  /* bits of algorithms, from 1 on, and 0 for gates: the first run takes twice
                          the time */
    int no_memory;      /* available memory */
    int products;       /* number started so far */
    int gates;          /* number of kernels of gates started so far */
    const void *result; /* of the last product of the library */
    const void *gated;  /* what the last gate has read: the product */
    int ours;           /* number of our own products started so far */
    int own;            /* our own product supports the layer; negative: but cannot be started */
    int broken;         /* the GPU is broken */
    int failures;       /* of the device, as its users see them */
    int settled;        /* how often threads were waited for that would disturb timing */
    const void *for_gemms; /* the workspace of products timed by themselves */
};

extern struct fake fake;

#endif

/* cuBLASLt and as much of CUDA as timing products takes, without a GPU: nothing is computed, and
 * every product takes a millisecond of a clock that only products move. */
#ifndef FAKE_PRODUCTS_H
#define FAKE_PRODUCTS_H

#include <stddef.h>

struct fake {
    int epilogue;          /* of products that do not do as they should; 0: all products */
    int fails;             /* they cannot be started */
    int fails_in_layers;   /* only in a layer, not when they are timed by themselves */
    int breaks;            /* a neighbour of what is offered stops the GPU */
    int no_memory;         /* to be had */
    int products;          /* started so far */
    int broken;            /* the GPU is */
    int failures;          /* of the device, as its users see them */
    const void *for_gemms; /* the workspace of products timed by themselves */
};

extern struct fake fake;

#endif

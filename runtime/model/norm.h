/* SPDX-License-Identifier: Apache-2.0 */
/* What the blocks between branches keep: norm.c has those before a branch, post_norm.c those after
 * one. */
#ifndef MEGATRON_NORM_H
#define MEGATRON_NORM_H

struct norm_memory {
    void *sum, *y;      /* (P, h) what is normalized, and the input of the next branch */
    void *stream;       /* (P, h) the residual stream: one of these two */
    float *mean, *rstd; /* (P) */
};

#endif

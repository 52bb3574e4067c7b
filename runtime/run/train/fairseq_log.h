/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines as fairseq prints them with --log-format json: all values but epoch and update are
 * strings, losses are in bits. */
#ifndef MEGATRON_FAIRSEQ_LOG_H
#define MEGATRON_FAIRSEQ_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Sums over steps. */
struct fairseq_sums {
    double loss, weight, norm, taken, clipped; /* as in struct step_state */
    double seconds, tokens, sentences, steps;  /* tokens without padding */
};

struct fairseq_line {
    int64_t epoch;            /* from 1 */
    double update;            /* epochs so far, with a fraction */
    struct fairseq_sums sums; /* of the steps of the line */
    int64_t updates;          /* optimizer steps so far */
    double lr;
    double norm;             /* of the last step; used if all steps of the line were skipped */
    bool clips;              /* gradients are clipped */
    double scale;            /* loss scale; 0: not fp16 */
    double train_wall, wall; /* seconds since the start */
};

/* The line of a training interval, or of an epoch. */
void fairseq_print_steps(const struct fairseq_line *line, bool epoch, FILE *out);

/* The line of an evaluation with mean loss 'loss': 'best' is the lowest so far, or NAN; 'name' is
 * "valid" or "test". Losses are in nats. */
void fairseq_print_evaluation(const struct fairseq_line *line, const char *name, double loss,
                              double best, FILE *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines as fairseq prints them with --log-format json: all values but epoch and update are
 * strings, losses are in bits. */
#ifndef MEGATRON_FAIRSEQ_LOG_H
#define MEGATRON_FAIRSEQ_LOG_H

#include <stddef.h>
#include <stdint.h>

struct fairseq_line {
    int64_t epoch;           /* from 1 */
    double update;           /* epochs so far, with a fraction */
    double loss;             /* in nats */
    double seconds;          /* of the steps since the last line */
    double tokens;           /* of these steps, without padding */
    double sentences;        /* of these steps */
    int64_t steps;           /* their number */
    int64_t updates;         /* optimizer steps so far */
    double lr, norm;         /* norm: the mean of the steps */
    double clipped;          /* share of the steps; negative: gradients are not clipped */
    double scale;            /* loss scale; 0: not fp16 */
    double train_wall, wall; /* seconds since the start */
};

/* The line of a training interval; 'when' is the time in seconds since 1970. */
void fairseq_line_format(const struct fairseq_line *line, double when, char *buffer, size_t size);

/* The line at the end of an epoch: means of its steps. */
void fairseq_line_epoch(const struct fairseq_line *line, double when, char *buffer, size_t size);

/* The line of an evaluation: 'best' is the lowest loss so far, or NAN; 'name' is "valid" or "test".
 */
void fairseq_line_valid(const struct fairseq_line *line, const char *name, double best, double when,
                        char *buffer, size_t size);

#endif

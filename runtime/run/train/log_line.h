/* SPDX-License-Identifier: Apache-2.0 */
/* One log line of a training run, as Megatron prints it, and as JSON. */
#ifndef MEGATRON_LOG_LINE_H
#define MEGATRON_LOG_LINE_H

#include <stddef.h>
#include <stdint.h>

struct log_line {
    int64_t iteration, total, consumed, batch_size;
    double milliseconds; /* per iteration */
    double teraflops;    /* per rank; negative: not shown */
    double lr, loss, loss_scale, grad_norm;
    double pair_loss;   /* of the binary head; NAN: not shown */
    double params_norm; /* negative: not shown */
    int64_t taken;      /* steps since the last line that were not skipped */
    int64_t skipped, nans;
    double eta;    /* estimated seconds to the end */
    double memory; /* bytes in use on the device of the logging rank; negative: not shown */
};

/* Write the line, without a newline, to 'buffer'. */
void log_line_format(const struct log_line *line, char *buffer, size_t size);

/* Write the same as a JSON object. */
void log_line_json(const struct log_line *line, char *buffer, size_t size);

/* Write the loss on validation or test data ('set') as a JSON object, with a newline. 'pair_loss'
 * is that of a binary head, or NAN. */
void log_line_evaluation_json(int64_t iteration, const char *set, double loss, double pair_loss,
                              char *buffer, size_t size);

#endif

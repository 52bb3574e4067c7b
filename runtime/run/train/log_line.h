/* SPDX-License-Identifier: Apache-2.0 */
/* One log line of a training run, as Megatron prints it, and as JSON. */
#ifndef MEGATRON_LOG_LINE_H
#define MEGATRON_LOG_LINE_H

#include <stdint.h>
#include <stdio.h>
#include "base/core/json_write.h"

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

/* Print the line as Megatron does. */
void log_line_print(const struct log_line *line, FILE *stream);

/* Write it as a JSON object on a line of its own. */
void log_line_json(const struct log_line *line, struct json_writer *json);

/* Write the loss on validation or test data ('set') in the same form. 'pair_loss' is that of a
 * binary head, or NAN. */
void log_line_evaluation_json(int64_t iteration, const char *set, double loss, double pair_loss,
                              struct json_writer *json);

#endif

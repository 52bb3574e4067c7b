/* SPDX-License-Identifier: Apache-2.0 */
/* Published training runs as CSV: the same rows with the step time, rate and memory that the model
 * predicts for them. */
#ifndef MEGATRON_ROWS_H
#define MEGATRON_ROWS_H

#include <stdio.h>
#include "machine.h"

/* Read 'path' and write it to 'stream' with the columns predicted_step_s, predicted_tflops_per_gpu
 * and predicted_mem_gb (GiB) added. Columns are found by the names in the first line; the order
 * does not matter, and columns of other names are copied. An empty micro-batch is chosen by the
 * model. A row that cannot be predicted gets empty columns, and a warning says why. */
int rows_predict(const char *path, const struct machines *machines, FILE *stream,
                 struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the logging rank writes the numbers of a run: standard output, TensorBoard, Weights &
 * Biases, JSON lines. */
#ifndef MEGATRON_OUTPUTS_H
#define MEGATRON_OUTPUTS_H

#include "append_file.h"
#include "arguments.h"
#include "event_file.h"
#include "log_line.h"
#include "wandb_file.h"

struct outputs {
    struct event_file *events;   /* NULL without --tensorboard-dir */
    struct wandb_file *wandb;    /* NULL without --wandb-project */
    struct append_file *metrics; /* NULL without --metrics-file */
    int silent;                  /* Megatron's lines are not printed */
    int bits;                    /* evaluations also give the loss to base 2 */
    int warned;                  /* a failed write was already reported */
    int64_t world_size;          /* 0: not written to TensorBoard */
    int perplexity;              /* of validation data is written to TensorBoard */
};

/* Returns 0 or -1; call outputs_close in both cases. It accepts a zeroed struct. */
int outputs_open(struct outputs *outputs, const struct arguments *a, struct error *err);

/* Write what is still buffered; lost records are reported as a warning, not an error. */
void outputs_close(struct outputs *outputs);

/* Log the steps since the last line. A full disk delays or loses TensorBoard records and metrics,
 * but does not end the run: it is reported once, and buffered records are retried with the next
 * line. */
void outputs_steps(struct outputs *outputs, const struct log_line *line);

/* Add records, whole lines, to the metrics file, if there is one. Clears the writer. */
void outputs_records(struct outputs *outputs, struct json_writer *json);

/* Log the mean loss of an evaluation; 'what' names it in the log, 'test' is 0 for validation data.
 * 'iteration' and 'consumed' are the steps and samples so far. 'pair_loss' is that of a binary
 * head, or NAN. */
void outputs_evaluation(struct outputs *outputs, int64_t iteration, int64_t consumed, int test,
                        const char *what, double loss, double pair_loss);

#endif

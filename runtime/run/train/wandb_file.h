/* SPDX-License-Identifier: Apache-2.0 */
/* Weights & Biases: a run in the offline format of its client, which `wandb sync DIRECTORY`
 * uploads.
 */
#ifndef MEGATRON_WANDB_FILE_H
#define MEGATRON_WANDB_FILE_H

#include <stdint.h>
#include "lib/error.h"

struct wandb_file;

/* Names of the run as Weights & Biases shows it; 'entity' (a user or team) may be NULL. */
struct wandb_names {
    const char *project, *name, *entity;
};

/* Create a new run in DIRECTORY/wandb, which is created if needed. NULL on error. */
struct wandb_file *wandb_file_create(const char *directory, const struct wandb_names *names,
                                     struct error *err);

/* The directory of the run, for `wandb sync`. */
const char *wandb_file_directory(const struct wandb_file *file);

/* Buffer a scalar. Those of one step form a record, which ends when the next step begins. */
void wandb_file_scalar(struct wandb_file *file, const char *tag, int64_t step, double value);

/* Write the records that are complete. Returns -1 if not all of it could be written; a later flush
 * tries again. */
int wandb_file_flush(struct wandb_file *file, struct error *err);

/* End the run, flush and free; -1 if anything was lost. 'file' may be NULL. */
int wandb_file_close(struct wandb_file *file, struct error *err);

#endif

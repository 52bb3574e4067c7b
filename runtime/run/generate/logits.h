/* SPDX-License-Identifier: Apache-2.0 */
/* The file of `megatron generate --logits`: safetensors with two tensors for each prompt, in order:
 * tokens.0 (n), int32, the tokens that the model has read, and logits.0 (n, vocabulary), fp32, its
 * prediction after each of them. It has its name when it is complete. */
#ifndef MEGATRON_LOGITS_H
#define MEGATRON_LOGITS_H

#include <stdint.h>
#include "lib/error.h"

struct logits;

/* Begin a file for 'prompts' prompts. Returns NULL with 'err' set. Caller must destroy. */
struct logits *logits_create(const char *path, int64_t prompts, int64_t vocabulary,
                             struct error *err);

/* Write the tokens of the next prompt; 'count' rows follow, in one call of logits_add or more. */
int logits_next(struct logits *logits, const int32_t *tokens, int64_t count, struct error *err);
int logits_add(struct logits *logits, const float *rows, int64_t count, struct error *err);

/* Complete the file, after all prompts. */
int logits_finish(struct logits *logits, struct error *err);

/* An incomplete file is removed. */
void logits_destroy(struct logits *logits);

#endif

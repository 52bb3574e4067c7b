/* SPDX-License-Identifier: Apache-2.0 */
/* Models of fastText that classify texts (lid.176.bin, lid.176.ftz and others like them): files of
 * version 12 and 11, of supervised models, with any of its four losses, quantized or not. */
#ifndef MEGATRON_CURATE_FASTTEXT_H
#define MEGATRON_CURATE_FASTTEXT_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

struct fasttext;

/* Read a model. Returns NULL with 'err' naming the file and what is wrong with it. A model is never
 * changed: all threads may use one. */
struct fasttext *fasttext_open(const char *path, struct error *err);
void fasttext_close(struct fasttext *model);

/* What one thread keeps from text to text. Returns NULL if memory runs out. */
struct fasttext_scratch;
struct fasttext_scratch *fasttext_scratch_create(const struct fasttext *model);
void fasttext_scratch_destroy(struct fasttext_scratch *scratch);

/* The most probable label of a text ("en", without fastText's "__label__"), which the model owns,
 * and its probability. Line ends count as spaces. NULL where the model knows nothing of the text.
 */
const char *fasttext_predict(const struct fasttext *model, struct fasttext_scratch *scratch,
                             const char *text, size_t size, double *probability);

/* All labels, for messages and checks. */
size_t fasttext_labels(const struct fasttext *model);
const char *fasttext_label(const struct fasttext *model, size_t number);

#endif

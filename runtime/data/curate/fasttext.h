/* SPDX-License-Identifier: Apache-2.0 */
/* fastText models that classify texts, such as lid.176.bin and lid.176.ftz: supervised models in
 * files of version 11 or 12, with any of the four losses, quantized or not. */
#ifndef MEGATRON_CURATE_FASTTEXT_H
#define MEGATRON_CURATE_FASTTEXT_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

struct fasttext;

/* Read a model. Returns NULL with 'err' set, which names the file. A model is read-only: all
 * threads can share it. */
struct fasttext *fasttext_open(const char *path, struct error *err);
void fasttext_close(struct fasttext *model);

/* Per-thread buffers and caches. */
struct fasttext_scratch;
struct fasttext_scratch *fasttext_scratch_create(const struct fasttext *model);
void fasttext_scratch_destroy(struct fasttext_scratch *scratch);

/* Predict the label of a text ("en", without fastText's "__label__") and its probability. The model
 * owns the label. Newlines count as spaces. Returns NULL if the text contains nothing that the
 * model knows. */
const char *fasttext_predict(const struct fasttext *model, struct fasttext_scratch *scratch,
                             const char *text, size_t size, double *probability);

/* All labels of the model. */
size_t fasttext_labels(const struct fasttext *model);
const char *fasttext_label(const struct fasttext *model, size_t number);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Do a corpus and a model have the same vocabulary? A .idx file does not say which tokenizer made
 * it, so tokens are looked at. */
#ifndef MEGATRON_DATASET_VOCABULARY_CHECK_H
#define MEGATRON_DATASET_VOCABULARY_CHECK_H

#include "indexed.h"

/* Read tokens at places spread over the corpus: a few thousand, whatever its size. Returns 0, or -1
 * with code ERROR_VOCABULARY if one of them is not in [0, vocabulary), or -1 if it cannot be read.
 */
int vocabulary_check(const struct indexed *corpus, int64_t vocabulary, struct error *err);

#endif

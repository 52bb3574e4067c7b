/* SPDX-License-Identifier: Apache-2.0 */
/* Builds fairseq's dict.txt from the input of a run: FairseqWords without a given dictionary. */
#ifndef MEGATRON_PREPROCESS_DICTIONARY_H
#define MEGATRON_PREPROCESS_DICTIONARY_H

#include "preprocess.h"

/* Make sure that config->dictionary exists: one rank counts the words of the input with
 * config->threads threads and writes it, the others wait. '*made' tells that this rank wrote it. */
int dictionary_make(const struct preprocess_config *config, int *made, struct error *err);

#endif

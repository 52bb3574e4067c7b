/* SPDX-License-Identifier: Apache-2.0 */
/* Builds fairseq's dict.txt from the input, for FairseqWords without a dictionary. */
#ifndef MEGATRON_PREPROCESS_DICTIONARY_H
#define MEGATRON_PREPROCESS_DICTIONARY_H

#include "preprocess.h"

/* Make config->dictionary if it is missing: one rank counts the words of the input with
 * config->threads threads, and the others wait. '*made': this rank wrote it. */
int dictionary_make(const struct preprocess_config *config, int *made, struct error *err);

#endif

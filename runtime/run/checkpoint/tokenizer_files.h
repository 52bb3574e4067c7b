/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer next to the weights, which `megatron generate` finds by itself. Files are named as
 * in Hugging Face directories (tokenizer.json, tokenizer.model, vocab.json with merges.txt). Next
 * to checkpoints, TOKENIZER_RECORD contains which of them to use, and the tokenizer's type. */
#ifndef MEGATRON_TOKENIZER_FILES_H
#define MEGATRON_TOKENIZER_FILES_H

#include <limits.h>
#include "data/tokenizer/tokenizer.h"

#define TOKENIZER_RECORD "megatron_tokenizer.json"

/* Copy the files of 'config' to 'directory' and write the record. */
int tokenizer_files_save(const char *directory, const struct tokenizer_config *config,
                         struct error *err);

/* Copy the tokenizer and generation_config.json from 'from' to 'to'; a missing tokenizer is not an
 * error. 'own': include the record and types that Hugging Face does not support. */
int tokenizer_files_copy(const char *from, const char *to, int own, struct error *err);

/* Complete 'config' with what 'directory' contains; its paths are written to 'first' and 'second'.
 * Returns 1, 0 if there is no tokenizer, or -1 if the record is damaged. */
int tokenizer_files_find(const char *directory, struct tokenizer_config *config,
                         char first[PATH_MAX], char second[PATH_MAX], struct error *err);

#endif

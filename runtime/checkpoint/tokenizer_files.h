/* The tokenizer beside the weights: what `megatron generate` needs to find it by itself.
 *
 * Files have the names that Hugging Face's folders have (tokenizer.json, tokenizer.model,
 * vocab.json with merges.txt). Beside checkpoints, TOKENIZER_RECORD says which of them counts, and
 * of which type it is. */
#ifndef MEGATRON_TOKENIZER_FILES_H
#define MEGATRON_TOKENIZER_FILES_H

#include <limits.h>
#include "tokenizer.h"

#define TOKENIZER_RECORD "megatron_tokenizer.json"

/* Put the files of 'config' and the record into 'directory'. */
int tokenizer_files_save(const char *directory, const struct tokenizer_config *config,
                         struct error *err);

/* Copy the tokenizer that 'from' has to 'to', and at which of its tokens texts end; none is no
 * error. 'own': with the record and files of types that Hugging Face does not know. */
int tokenizer_files_copy(const char *from, const char *to, int own, struct error *err);

/* Complete 'config' by what 'directory' has; its paths are put into 'first' and 'second'. Returns
 * 1, 0 where it has none, or -1 where the record is damaged. */
int tokenizer_files_find(const char *directory, struct tokenizer_config *config,
                         char first[PATH_MAX], char second[PATH_MAX], struct error *err);

#endif

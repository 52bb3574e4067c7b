/* SPDX-License-Identifier: Apache-2.0 */
/* Undoes the tokenization of wikitext-103: "1 @,@ 500 ft ( 460 m ) , " becomes "1,500 ft (460 m),
 * ". */
#ifndef MEGATRON_CORPUS_DETOKENIZE_H
#define MEGATRON_CORPUS_DETOKENIZE_H

#include "wiki_buffer.h"

/* Write the text to 'out', which is cleared first. */
void detokenize(const char *data, size_t size, struct wiki_buffer *out);

#endif

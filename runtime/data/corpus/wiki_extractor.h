/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of wiki_look_extractor, each from one text to another. 'newer': the rules of 3.1. */
#ifndef MEGATRON_CORPUS_WIKI_EXTRACTOR_H
#define MEGATRON_CORPUS_WIKI_EXTRACTOR_H

#include "wiki_looks.h"

/* Tags are dropped, with their content or without; formulas and code become placeholders. */
void wiki_extractor_tags(struct wiki_look *look, const struct wiki_buffer *in,
                         struct wiki_buffer *out, int newer);

/* References to characters are undone; spaces, dots and quotes are reduced. */
void wiki_extractor_characters(const struct wiki_buffer *in, struct wiki_buffer *out, int newer);

/* Lines that are no text are dropped, headings kept if text follows, HTML's characters escaped.
 * 'scratch' is overwritten. */
void wiki_extractor_lines(const struct wiki_buffer *in, struct wiki_buffer *scratch,
                          struct wiki_buffer *out, int newer);

#endif

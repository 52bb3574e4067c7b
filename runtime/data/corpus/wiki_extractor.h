/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: the passes of wiki_look_extractor. Each reads one buffer and writes another.
 */
#ifndef MEGATRON_CORPUS_WIKI_EXTRACTOR_H
#define MEGATRON_CORPUS_WIKI_EXTRACTOR_H

#include "wiki_looks.h"

/* Drop tags, some with their content; replace formulas and code by placeholders. */
void wiki_extractor_tags(struct wiki_look *look, const struct wiki_buffer *in,
                         struct wiki_buffer *out);

/* Decode character references; collapse runs of spaces, dots and quotes. */
void wiki_extractor_characters(const struct wiki_buffer *in, struct wiki_buffer *out);

/* Drop lines without text and headings without text below them; escape <, > and &. 'scratch' is
 * overwritten. */
void wiki_extractor_lines(const struct wiki_buffer *in, struct wiki_buffer *scratch,
                          struct wiki_buffer *out);

#endif

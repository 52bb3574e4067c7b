/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: links, tags and characters of the clean style. */
#ifndef MEGATRON_CORPUS_WIKI_INLINE_H
#define MEGATRON_CORPUS_WIKI_INLINE_H

#include "wiki_looks.h"

/* Marks between the passes: something was dropped here; a space that stays; a line without markup.
 */
#define WIKI_DROPPED   '\x01'
#define WIKI_RAW_SPACE '\x02'
#define WIKI_RAW_LINE  '\x03'

/* Links and tags: replace them by what they show. Text that is not markup (nowiki, code, formulas)
 * is written with character references for everything that later passes would touch. */
void wiki_inline(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out);

/* Character references, quotes of bold and italics, white space, remnants of dropped templates. */
void wiki_characters(const struct wiki_buffer *in, struct wiki_buffer *out);

/* Write text so that no later pass sees markup in it. */
void wiki_put_raw(struct wiki_buffer *out, struct wiki_span text);

#endif

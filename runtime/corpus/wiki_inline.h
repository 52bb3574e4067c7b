/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of corpus/: links, tags and characters of the clean look. */
#ifndef MEGATRON_CORPUS_WIKI_INLINE_H
#define MEGATRON_CORPUS_WIKI_INLINE_H

#include "wiki_looks.h"

/* Between the passes: something was dropped here; a space that stays; a line that is no markup. */
#define WIKI_DROPPED   '\x01'
#define WIKI_RAW_SPACE '\x02'
#define WIKI_RAW_LINE  '\x03'

/* Links, tags: what is shown of them. Text that is no markup (nowiki, code, formulas) comes out
 * with character references for all that the later passes would touch. */
void wiki_inline(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out);

/* Character references, quotes of bold and italics, white space, what dropped templates left. */
void wiki_characters(const struct wiki_buffer *in, struct wiki_buffer *out);

/* Put text so that no later pass sees markup in it. */
void wiki_put_raw(struct wiki_buffer *out, struct wiki_span text);

#endif

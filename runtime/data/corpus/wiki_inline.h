/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: links, tags and characters of the clean style. */
#ifndef MEGATRON_CORPUS_WIKI_INLINE_H
#define MEGATRON_CORPUS_WIKI_INLINE_H

#include "wiki_looks.h"

/* Marks between the passes: something was dropped here; a space that stays; a line without markup;
 * a new line within a line of the source; an apostrophe that is text; the end of a cell. */
#define WIKI_DROPPED    '\x01'
#define WIKI_RAW_SPACE  '\x02'
#define WIKI_RAW_LINE   '\x03'
#define WIKI_BREAK      '\x04'
#define WIKI_APOSTROPHE '\x05'
#define WIKI_CELL       '\x06'

/* Links and tags: replace them by what they show. Text that is not markup (nowiki, code, formulas)
 * is written with character references for everything that later passes would touch. */
void wiki_inline(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out);

/* Character references, quotes of bold and italics, white space, remnants of dropped templates. */
void wiki_characters(const struct wiki_buffer *in, struct wiki_buffer *out);

/* In each line of what wiki_inline wrote: where neither bold nor italics pair up, one bold run
 * (''') is an apostrophe and italics (l'''Iliade''). */
void wiki_quotes(struct wiki_buffer *text);

/* The text of a link, in place: its apostrophes are marked, those of bold and italics removed. It
 * has those only in a label. Returns its new size. */
size_t wiki_link_quotes(char *text, size_t size, int label);

/* Apostrophes that a run of 'count' shows: two are italics, three bold, five both. */
size_t wiki_apostrophes(size_t count);

/* Write the content of <sup> (raised) or <sub>, which begins at 'at', if it cannot be plain text
 * without becoming another number. Returns the end of the element; NULL: only its tags go. */
const char *wiki_script(const char *at, const char *end, int raised, struct wiki_buffer *out);

/* Write text so that no later pass sees markup in it. */
void wiki_put_raw(struct wiki_buffer *out, struct wiki_span text);

#endif

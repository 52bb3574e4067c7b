/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: the passes of the clean style over links, tags and characters. */
#ifndef MEGATRON_CORPUS_WIKI_INLINE_H
#define MEGATRON_CORPUS_WIKI_INLINE_H

#include "wiki_looks.h"

/* Control characters between the passes: something was dropped here; a hard space; a line without
 * markup; a newline within a line of the source; a literal apostrophe; the end of a table cell. */
#define WIKI_DROPPED    '\x01'
#define WIKI_RAW_SPACE  '\x02'
#define WIKI_RAW_LINE   '\x03'
#define WIKI_BREAK      '\x04'
#define WIKI_APOSTROPHE '\x05'
#define WIKI_CELL       '\x06'

/* Replace links and tags by what they show. Literal text (nowiki, code, formulas) is written with
 * character references for everything that later passes would interpret. */
void wiki_inline(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out);

/* Decode character references, and remove bold and italic quotes, redundant white space and
 * remnants of dropped templates. */
void wiki_characters(const struct wiki_buffer *in, struct wiki_buffer *out);

/* Apply MediaWiki's rule for quotes to each line that wiki_inline wrote: where neither bold nor
 * italics pair up, one bold run (''') is an apostrophe and italics (l'''Iliade''). */
void wiki_quotes(struct wiki_buffer *text);

/* Process the quotes of a link label in place: marks literal apostrophes and removes those of bold
 * and italics. Returns the new size. */
size_t wiki_link_quotes(char *text, size_t size, int label);

/* The number of literal apostrophes in a run of 'count': two are italics, three bold, five both. */
size_t wiki_apostrophes(size_t count);

/* Write the content of <sup> (raised) or <sub> at 'at', if plain text would read as another number.
 * Returns the end of the element, or NULL if only its tags are to be dropped. */
const char *wiki_script(const char *at, const char *end, int raised, struct wiki_buffer *out);

/* Write literal text, in which no later pass sees markup. */
void wiki_put_raw(struct wiki_buffer *out, struct wiki_span text);

#endif

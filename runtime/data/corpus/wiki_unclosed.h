/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: markup of a page that is never closed. What becomes of it is up to the looks,
 * which keep it as text or drop it; here it is only found, by MediaWiki's rules, so that the page
 * can be reported. */
#ifndef MEGATRON_CORPUS_WIKI_UNCLOSED_H
#define MEGATRON_CORPUS_WIKI_UNCLOSED_H

#include "wiki_looks.h"

/* The first markup of 'text' that is never closed. 'place' is its byte in 'text'. Uses the stacks
 * of 'look'. */
struct wiki_unclosed wiki_unclosed(struct wiki_look *look, const struct wiki_buffer *text);

#endif

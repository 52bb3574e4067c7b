/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: finds templates that call themselves. MediaWiki shows an error in their
 * place. Templates are not expanded here, but such a page is broken. */
#ifndef MEGATRON_CORPUS_WIKI_LOOP_H
#define MEGATRON_CORPUS_WIKI_LOOP_H

#include "wiki_buffer.h"

enum { WIKI_NS_TEMPLATE = 10 };

/* A quick test: may the template 'title' call itself in 'text'? Both may be escaped, so most
 * templates need not be unescaped. */
int wiki_may_loop(struct wiki_span text, struct wiki_span title);

/* Returns 1 if the template calls itself in transcluded text: comments, <noinclude>, <nowiki> and
 * the like do not count. Both arguments are unescaped. */
int wiki_loops(struct wiki_span text, struct wiki_span title);

#endif

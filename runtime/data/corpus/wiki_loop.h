/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: a template that includes itself. MediaWiki shows an error in its place; here
 * templates are not read, so nothing can hang, but such a template is broken. */
#ifndef MEGATRON_CORPUS_WIKI_LOOP_H
#define MEGATRON_CORPUS_WIKI_LOOP_H

#include "wiki_buffer.h"

enum { WIKI_NS_TEMPLATE = 10 };

/* Could the text of this page of the namespace of templates call it? Text and title may both be
 * escaped, so that most templates need not be unescaped. */
int wiki_may_loop(struct wiki_span text, struct wiki_span title);

/* Does it, where the text is included? Not in a comment, in <noinclude> and <nowiki>, ... Neither
 * is escaped. */
int wiki_loops(struct wiki_span text, struct wiki_span title);

#endif

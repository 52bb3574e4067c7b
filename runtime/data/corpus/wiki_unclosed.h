/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: finds unclosed markup, by MediaWiki's rules, so that the page can be
 * reported. The looks decide whether to keep or drop it. */
#ifndef MEGATRON_CORPUS_WIKI_UNCLOSED_H
#define MEGATRON_CORPUS_WIKI_UNCLOSED_H

#include "wiki_looks.h"

/* Find the first unclosed markup of 'text'. 'place' is its offset in 'text'. Uses the stacks of
 * 'look'. */
struct wiki_unclosed wiki_unclosed(struct wiki_look *look, const struct wiki_buffer *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: is a text UTF-8? */
#ifndef MEGATRON_CORPUS_WIKI_UTF8_H
#define MEGATRON_CORPUS_WIKI_UTF8_H

#include "wiki_buffer.h"

/* Without surrogates, overlong forms and anything above U+10FFFF. */
int wiki_is_utf8(struct wiki_span text);

#endif

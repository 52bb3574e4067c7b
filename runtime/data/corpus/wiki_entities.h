/* SPDX-License-Identifier: Apache-2.0 */
/* Character references: &amp; &#65; &#x41; */
#ifndef MEGATRON_CORPUS_WIKI_ENTITIES_H
#define MEGATRON_CORPUS_WIKI_ENTITIES_H

#include "wiki_buffer.h"

/* Parse the reference at 'at', which is '&'. Returns its length and the code point in '*point' (not
 * checked: it may be 0 or a surrogate), or 0 if it is not a reference. Only the names of HTML 4 are
 * known: "apos" is not. */
size_t wiki_entity(const char *at, const char *end, uint32_t *point);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Converts MediaWiki dumps to text.
 *
 *     struct wiki_options options = {.min_length = 1};
 *     struct wikitext *wikitext = wikitext_create(&options);
 *     struct wiki_document document;
 *
 *     if (wikitext_page(wikitext, page, size, site, &document) == FAULT_NONE)
 *         use(document.text);
 *     wikitext_destroy(wikitext);
 *
 * wiki_lines.h converts ranges of a dump to JSON lines, extract.h a whole dump. */
#ifndef MEGATRON_WIKI_H
#define MEGATRON_WIKI_H

#include "extract.h"
#include "mediawiki.h"
#include "wiki_lines.h"
#include "wiki_site.h"
#include "wikitext.h"

#endif

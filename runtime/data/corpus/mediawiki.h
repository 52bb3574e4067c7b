/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the pages of a MediaWiki XML dump (export-0.3 to 0.11). Texts always escape '<', so <page>
 * occurs nowhere else, and a dump can be cut at any byte: a range owns the pages whose '<page'
 * begins in it. expat is not used, because it can only read a document from its start. */
#ifndef MEGATRON_CORPUS_MEDIAWIKI_H
#define MEGATRON_CORPUS_MEDIAWIKI_H

#include <stdint.h>
#include "jsonl.h"
#include "wiki_buffer.h"

/* One <page>, with title and text still escaped. Of several revisions, the last one. */
struct wiki_page {
    struct wiki_span title, text;
    int64_t id, revision;
    int ns, redirect;
    int wikitext; /* its content model */
};

/* Parse the page at 'data'. Returns FAULT_NONE, FAULT_CUT if the page is not closed, or FAULT_XML
 * if its elements are not as expected. 'page' always contains what was parsed so far. */
enum document_fault mediawiki_page(const char *data, size_t size, struct wiki_page *page);

/* Is this the start of a MediaWiki dump? */
int mediawiki_is_dump(const char *data, size_t size);

/* The first '<page>' at or after 'at', or NULL; the end of the first '</page>'. */
const char *mediawiki_begin(const char *at, const char *end);
const char *mediawiki_end(const char *at, const char *end);

/* The number of bytes of complete pages in 'data', if more data follows. */
size_t mediawiki_whole(const char *data, size_t size);

/* Decode XML entities. Returns 0, or -1 if the text is not UTF-8 (then 'out' is incomplete). */
int mediawiki_unescape(struct wiki_span text, struct wiki_buffer *out);

/* The offset in 'text' of byte 'place' of its unescaped form. */
size_t mediawiki_escaped(struct wiki_span text, size_t place);

#endif

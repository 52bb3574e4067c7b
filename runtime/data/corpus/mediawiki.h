/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a MediaWiki XML dump (export-0.3 to 0.11). Within texts '<' is always escaped, so
 * <page> occurs nowhere else, and a dump can be split at any byte: a range owns the pages whose
 * '<page' begins in it. That is why expat is not used: it reads a document from its beginning. */
#ifndef MEGATRON_CORPUS_MEDIAWIKI_H
#define MEGATRON_CORPUS_MEDIAWIKI_H

#include <stdint.h>
#include "jsonl.h"
#include "wiki_buffer.h"

/* One <page> as in the dump: titles and texts are still escaped. If there are several revisions,
 * the last one. */
struct wiki_page {
    struct wiki_span title, text;
    int64_t id, revision;
    int ns, redirect;
    int wikitext; /* its content model */
};

/* Read the page at 'data'. Returns FAULT_NONE, FAULT_CUT if the page is not closed, FAULT_XML if
 * its elements are not as expected. 'page' always has what was read so far. */
enum document_fault mediawiki_page(const char *data, size_t size, struct wiki_page *page);

/* Is this the start of such a dump? */
int mediawiki_is_dump(const char *data, size_t size);

/* The first '<page>' at or after 'at', or NULL; and the end of the first '</page>'. */
const char *mediawiki_begin(const char *at, const char *end);
const char *mediawiki_end(const char *at, const char *end);

/* The number of bytes of 'data' that are whole pages, if more data follows. */
size_t mediawiki_whole(const char *data, size_t size);

/* Undo XML's entities. Returns -1 if the text is not UTF-8 (then 'out' is not complete). */
int mediawiki_unescape(struct wiki_span text, struct wiki_buffer *out);

/* Where byte 'place' of what mediawiki_unescape makes of a text is in that text. */
size_t mediawiki_escaped(struct wiki_span text, size_t place);

#endif

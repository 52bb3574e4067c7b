/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a page of a MediaWiki dump to a document of plain text.
 *
 *     struct wikitext *wikitext = wikitext_create(&options);
 *
 *     if (wikitext_page(wikitext, page, size, site, &document) == FAULT_NONE)
 *         use(document.text);
 *     wikitext_destroy(wikitext);
 *
 * Time and memory are linear in the size of the page, whatever it contains. */
#ifndef MEGATRON_CORPUS_WIKITEXT_H
#define MEGATRON_CORPUS_WIKITEXT_H

#include "lib/error.h"
#include "jsonl.h"
#include "wiki_buffer.h"

struct wiki_site;

enum wiki_style { WIKI_CLEAN, WIKI_EXTRACTOR };
enum wiki_math { WIKI_MATH_LATEX, WIKI_MATH_DROP };
enum wiki_tables { WIKI_TABLES_DROP, WIKI_TABLES_TEXT };

enum { WIKI_NAMESPACES = 32 };

struct wiki_options {
    int style, math, tables;        /* enum wiki_style, wiki_math, wiki_tables */
    int no_title;                   /* WIKI_CLEAN: omit the title */
    int redirects, disambiguations; /* keep them */
    int64_t min_length;             /* minimum number of characters in a document */
    int namespaces[WIKI_NAMESPACES];
    size_t namespace_count;
};

/* Read a list of namespace numbers: "0,10,14". Returns 0 or -1. */
int wiki_options_namespaces(struct wiki_options *options, const char *list, struct error *err);

/* Unclosed markup, which does not make a page invalid. */
struct wiki_unclosed {
    enum document_fault fault; /* MARKUP_COMMENT, ...; FAULT_NONE: everything is closed */
    size_t place;              /* its offset, from <page> on */
    unsigned tag;              /* MARKUP_TAG: which one */
};
/* A description for the user, such as "<ref> without </ref>". */
void wiki_unclosed_text(const struct wiki_unclosed *unclosed, char *text, size_t size);

struct wiki_document {
    int64_t id, revision;
    struct wiki_span title; /* set also if the page is broken or excluded */
    struct wiki_span text;
    struct wiki_unclosed unclosed;
};

struct wikitext;

/* The converter of one thread. 'options' must stay valid. Caller must destroy. */
struct wikitext *wikitext_create(const struct wiki_options *options);
void wikitext_destroy(struct wikitext *wikitext);

/* Convert the page at 'data' (from <page> to </page>). Returns FAULT_NONE with the document, which
 * is valid until the next call; a fault; or why the page is excluded (DOCUMENT_REDIRECT, ...).
 * 'site' may be NULL. */
enum document_fault wikitext_page(struct wikitext *wikitext, const char *data, size_t size,
                                  const struct wiki_site *site, struct wiki_document *document);

/* Free the memory, which an unusually long page has enlarged. Invalidates the document's text. */
void wikitext_trim(struct wikitext *wikitext);

#endif

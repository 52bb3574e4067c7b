/* SPDX-License-Identifier: Apache-2.0 */
/* Converts pages of a MediaWiki dump to JSON lines (id, revid, url, title, text), with one
 * thread. */
#ifndef MEGATRON_CORPUS_WIKI_LINES_H
#define MEGATRON_CORPUS_WIKI_LINES_H

#include "files.h"
#include "jsonl.h"
#include "records.h"
#include "wiki_buffer.h"
#include "wikitext.h"

/* Limits on the broken pages, and on the pages with unclosed markup, that are reported
 * individually. Broken files are always reported. */
enum { WIKI_LINES_SHOWN = 20 };

struct wiki_counts {
    int64_t documents, bytes;    /* bytes of XML */
    int64_t faults[FAULT_COUNT]; /* broken pages, excluded pages, pages with unclosed markup */
};
void wiki_counts_add(struct wiki_counts *sum, const struct wiki_counts *more);
/* The number of broken pages; of pages that the options exclude; of documents with unclosed
 * markup. */
int64_t wiki_counts_skipped(const struct wiki_counts *counts);
int64_t wiki_counts_left_out(const struct wiki_counts *counts);
int64_t wiki_counts_unclosed(const struct wiki_counts *counts);
/* Fails if the whole input contains no valid page: it is not a dump, or damaged. Returns 0, or -1
 * with ERROR_USAGE. */
int wiki_counts_check(const struct wiki_counts *counts, struct error *err);

struct wiki_lines {
    const struct corpus_files *files; /* with their sites */
    const struct segment *segments;
    size_t count;
    const struct wiki_options *wiki;
    size_t max_page; /* maximum size of a page; longer ones are skipped */
    int strict;      /* broken pages and unclosed markup are errors */
    /* Receives complete lines after each block; there may be none. Returns 0 or -1. */
    int (*take)(void *context, struct wiki_span lines, struct error *err);
    /* Receive a warning about a skipped page; about a kept page with unclosed markup; about a file
     * that is truncated or has no complete <siteinfo>. Not called if strict. */
    void (*warn)(void *context, const char *sentence);
    void (*unclosed)(void *context, const char *sentence);
    void (*flaw)(void *context, const char *sentence);
    void *context;
};

/* Convert the segments and add up 'counts'. Returns 0, or -1 (also if 'take' does). */
int wiki_lines_read(const struct wiki_lines *lines, struct wiki_counts *counts, struct error *err);

#endif

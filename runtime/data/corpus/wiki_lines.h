/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a MediaWiki dump -> JSON lines (id, revid, url, title, text), by one thread. */
#ifndef MEGATRON_CORPUS_WIKI_LINES_H
#define MEGATRON_CORPUS_WIKI_LINES_H

#include "files.h"
#include "jsonl.h"
#include "records.h"
#include "wiki_buffer.h"
#include "wikitext.h"

/* How many broken pages are reported individually, and how many pages with unclosed markup. Each
 * broken file is. */
enum { WIKI_LINES_SHOWN = 20 };

struct wiki_counts {
    int64_t documents, bytes;    /* bytes of XML */
    int64_t faults[FAULT_COUNT]; /* pages that are broken, left out, or have unclosed markup */
};
void wiki_counts_add(struct wiki_counts *sum, const struct wiki_counts *more);
/* Pages that are broken; pages that the options exclude; documents with unclosed markup. */
int64_t wiki_counts_skipped(const struct wiki_counts *counts);
int64_t wiki_counts_left_out(const struct wiki_counts *counts);
int64_t wiki_counts_unclosed(const struct wiki_counts *counts);
/* Is there no page in the whole input, or only broken ones? Then it is no dump, or a damaged one.
 * Returns 0, or -1 with ERROR_USAGE. */
int wiki_counts_check(const struct wiki_counts *counts, struct error *err);

struct wiki_lines {
    const struct corpus_files *files; /* with their sites */
    const struct segment *segments;
    size_t count;
    const struct wiki_options *wiki;
    size_t max_page; /* bytes; longer pages are skipped */
    int strict;      /* the first broken page or unclosed markup is an error */
    /* Take whole lines, as often as a block has been read; there may be none. Returns 0 or -1. */
    int (*take)(void *context, struct wiki_span lines, struct error *err);
    /* A sentence about a page that is skipped; about a page with unclosed markup, which is kept;
     * and about a file that is truncated or has no complete <siteinfo>. Not called if strict. */
    void (*warn)(void *context, const char *sentence);
    void (*unclosed)(void *context, const char *sentence);
    void (*flaw)(void *context, const char *sentence);
    void *context;
};

/* Read the segments and add up 'counts'. Returns 0, or -1 also if 'take' does. */
int wiki_lines_read(const struct wiki_lines *lines, struct wiki_counts *counts, struct error *err);

#endif

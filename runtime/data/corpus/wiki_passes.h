/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: passes over wikitext that all looks share. The time of each is linear in the
 * length of the text, whatever it contains. */
#ifndef MEGATRON_CORPUS_WIKI_PASSES_H
#define MEGATRON_CORPUS_WIKI_PASSES_H

#include "wiki_buffer.h"

/* A range of the text to drop or replace. */
struct wiki_cut {
    size_t begin, end;
    int kind;      /* enum wiki_cut_kind */
    unsigned what; /* number for WIKI_CUT_FORMULA and WIKI_CUT_CODE */
};

enum wiki_cut_kind {
    WIKI_CUT_DROP,
    WIKI_CUT_SPACE,   /* becomes a space */
    WIKI_CUT_BREAK,   /* becomes a newline */
    WIKI_CUT_FORMULA, /* becomes formula_N */
    WIKI_CUT_CODE,    /* becomes codice_N */
};

struct wiki_cuts {
    struct wiki_cut *items;
    size_t count, room;
};

void wiki_cut_add(struct wiki_cuts *cuts, size_t begin, size_t end, int kind, unsigned what);
/* Copy 'in' to 'out' and apply the cuts. Of overlapping cuts the first one counts, and the rest of
 * the second is dropped, too. */
void wiki_cut_apply(struct wiki_cuts *cuts, const struct wiki_buffer *in, struct wiki_buffer *out);
/* Cut from the innermost of the 'open' items to 'end', which replaces the cuts within. */
void wiki_cut_close(struct wiki_cuts *cuts, struct wiki_cuts *open, size_t end);

/* Copy without tables, from {| to |}, nested ones included. A table that is never closed ends at
 * the last |} after its start. */
void wiki_drop_tables(const struct wiki_buffer *in, struct wiki_buffer *out);

/* Replace external links ([https://... label]) by their labels. */
void wiki_external_links(const struct wiki_buffer *in, struct wiki_buffer *out);

/* The length of the behaviour switch at 'at', such as __NOTOC__; 0 if there is none. */
size_t wiki_switch(const char *at, const char *end);

/* Templates that call themselves: MediaWiki shows an error in their place. Templates are not
 * expanded here, but such a page is broken. */

/* A quick test: may the template 'title' call itself in 'text'? Both may be escaped, so most
 * templates need not be unescaped. */
int wiki_may_loop(struct wiki_span text, struct wiki_span title);

/* Returns 1 if the template calls itself in transcluded text: comments, <noinclude>, <nowiki> and
 * the like do not count. Both arguments are unescaped. */
int wiki_loops(struct wiki_span text, struct wiki_span title);

#endif

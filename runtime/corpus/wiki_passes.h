/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of corpus/: passes over wikitext that the looks have in common. Each takes time that is
 * proportional to the text, whatever the text is. */
#ifndef MEGATRON_CORPUS_WIKI_PASSES_H
#define MEGATRON_CORPUS_WIKI_PASSES_H

#include "wiki_buffer.h"

/* A piece of the text to leave out, or to replace. */
struct wiki_cut {
    size_t begin, end;
    int kind;      /* enum wiki_cut_kind */
    unsigned what; /* WIKI_CUT_FORMULA, WIKI_CUT_CODE: its number */
};

enum wiki_cut_kind {
    WIKI_CUT_DROP,
    WIKI_CUT_SPACE,   /* becomes a space */
    WIKI_CUT_BREAK,   /* becomes the end of a line */
    WIKI_CUT_FORMULA, /* becomes formula_N */
    WIKI_CUT_CODE,    /* becomes codice_N */
};

struct wiki_cuts {
    struct wiki_cut *items;
    size_t count, capacity;
    int failed;
};

void wiki_cut_add(struct wiki_cuts *cuts, size_t begin, size_t end, int kind, unsigned what);
/* Copy 'in' to 'out' without the cuts. Of cuts that overlap the first one counts, and the part of
 * the second behind it is dropped, too. */
void wiki_cut_apply(struct wiki_cuts *cuts, const struct wiki_buffer *in, struct wiki_buffer *out);
void wiki_cuts_clear(struct wiki_cuts *cuts);

/* Copy without what stands between 'open' and 'close', two characters each, with what is nested in
 * it. What is never closed ends at the last 'close' behind it. */
void wiki_drop_nested(const struct wiki_buffer *in, struct wiki_buffer *out, const char *open,
                      const char *close);

/* Replace external links ([https://... label]) by their labels. */
void wiki_external_links(const struct wiki_buffer *in, struct wiki_buffer *out);

/* The length of the behaviour switch at 'at', such as __NOTOC__; 0 if there is none. */
size_t wiki_switch(const char *at, const char *end, int all);

/* A tag: <name ...>, </name>, <name .../>. */
struct wiki_tag {
    struct wiki_span name;
    size_t length; /* with its brackets; 0: not a tag */
    int closing, empty;
    int endless; /* it is no tag because nothing closes one from here on */
};
struct wiki_tag wiki_tag(const char *at, const char *end);

#endif

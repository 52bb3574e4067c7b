/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: passes over wikitext that the looks share. The time of each is proportional
 * to the length of the text, whatever it contains. */
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
/* Copy 'in' to 'out' without the cuts. If cuts overlap, the first one counts, and the rest of the
 * second is dropped, too. */
void wiki_cut_apply(struct wiki_cuts *cuts, const struct wiki_buffer *in, struct wiki_buffer *out);
void wiki_cuts_clear(struct wiki_cuts *cuts);

/* Copy without what is between 'open' and 'close', two characters each, including what is nested in
 * it. If it is never closed, it ends at the last 'close' after it. Returns how deep they are
 * nested. */
size_t wiki_drop_nested(const struct wiki_buffer *in, struct wiki_buffer *out, const char *open,
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
    int endless; /* it is not a tag because no '>' follows */
};
struct wiki_tag wiki_tag(const char *at, const char *end);

#endif

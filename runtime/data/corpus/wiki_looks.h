/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: shared by the looks (ways to turn wikitext into text). */
#ifndef MEGATRON_CORPUS_WIKI_LOOKS_H
#define MEGATRON_CORPUS_WIKI_LOOKS_H

#include "wiki_buffer.h"
#include "wiki_passes.h"
#include "wikitext.h"

/* WIKI_DEPTH: no page that anyone can read nests its markup deeper. */
enum { WIKI_LOOK_NUMBERS = 4096, WIKI_LEVELS = 8, WIKI_DEPTH = 1000 };

/* Memory of one thread, reused from page to page. */
struct wiki_look {
    const struct wiki_options *options;
    struct wiki_buffer a, b; /* the text, alternating; it starts in 'a' */
    struct wiki_buffer out;  /* the result */
    struct wiki_buffer line_a, line_b, scratch;
    struct wiki_cuts cuts, stack;
    struct wiki_frames *frames; /* of wiki_expand */
    /* Numbers of formulas and code; an entry counts if it has the page's stamp. */
    struct {
        uint64_t sum;
        unsigned stamp, number;
    } numbers[WIKI_LOOK_NUMBERS];
    unsigned stamp;
    size_t head;  /* bytes of the title at the start of the result */
    size_t depth; /* how deep templates and links of the page are nested */
};

/* What templates may ask about the page, and how links are read. */
struct wiki_page_info {
    struct wiki_span title;
    const struct wiki_site *site; /* may be NULL */
};

/* The level of a heading of at least two equals signs, with its words; 0 if it is not a heading. */
int wiki_heading(struct wiki_span line, struct wiki_span *words);

/* 'look->a' -> 'look->out'. 'newer': the rules of 3.1.0 instead of 3.0.6. */
void wiki_look_extractor(struct wiki_look *look, const struct wiki_page_info *page, int newer);
void wiki_look_clean(struct wiki_look *look, const struct wiki_page_info *page);

#endif

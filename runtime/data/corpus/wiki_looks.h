/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: shared by the looks, that is, styles of converting wikitext to text. */
#ifndef MEGATRON_CORPUS_WIKI_LOOKS_H
#define MEGATRON_CORPUS_WIKI_LOOKS_H

#include "wiki_buffer.h"
#include "wiki_passes.h"
#include "wikitext.h"

/* WIKI_DEPTH: pages that are nested deeper are invalid. */
enum { WIKI_LOOK_NUMBERS = 4096, WIKI_LEVELS = 8, WIKI_DEPTH = 1000 };

/* Buffers of one thread. */
struct wiki_look {
    const struct wiki_options *options;
    struct wiki_buffer a, b; /* the text, alternately; it starts in 'a' */
    struct wiki_buffer out;  /* the result */
    struct wiki_buffer line_a, line_b, scratch;
    struct wiki_cuts cuts, stack;
    struct wiki_frames *frames; /* of wiki_expand */
    /* A hash table of the numbers of formulas and code. Entries with an old stamp are free. */
    struct {
        uint64_t sum;
        unsigned stamp, number;
    } numbers[WIKI_LOOK_NUMBERS];
    unsigned stamp;
    size_t head;  /* size of the title at the start of the result */
    size_t depth; /* nesting depth of the page's templates and links */
};

/* The page, for templates and links. */
struct wiki_page_info {
    struct wiki_span title;
    const struct wiki_site *site; /* may be NULL */
};

/* Parse a heading with at least two equals signs. Returns its level, or 0 if it is not one. */
int wiki_heading(struct wiki_span line, struct wiki_span *words);

/* Convert 'look->a' to 'look->out'. */
void wiki_look_extractor(struct wiki_look *look, const struct wiki_page_info *page);
void wiki_look_clean(struct wiki_look *look, const struct wiki_page_info *page);

/* Find the first unclosed markup of 'text', by MediaWiki's rules, so that the page can be reported;
 * the looks decide whether to keep or drop it. 'place' is its offset in 'text'. Uses the stacks of
 * 'look'. */
struct wiki_unclosed wiki_unclosed(struct wiki_look *look, const struct wiki_buffer *text);

/* The passes of wiki_look_extractor; each reads one buffer and writes another. */

/* Drop tags, some with their content; replace formulas and code by placeholders. */
void wiki_extractor_tags(struct wiki_look *look, const struct wiki_buffer *in,
                         struct wiki_buffer *out);

/* Decode character references; collapse runs of spaces, dots and quotes. */
void wiki_extractor_characters(const struct wiki_buffer *in, struct wiki_buffer *out);

/* Drop lines without text and headings without text below them; escape <, > and &. 'scratch' is
 * overwritten. */
void wiki_extractor_lines(const struct wiki_buffer *in, struct wiki_buffer *scratch,
                          struct wiki_buffer *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: expands {{templates}}, {{#functions:}} and {{{parameters}}} in one pass with
 * a stack: a call is evaluated when its braces close, after its arguments. The wiki's own templates
 * are never read, so there is no recursion. What is nested deeper than WIKI_EXPAND_DEPTH is
 * dropped, which bounds how often a byte is copied. */
#ifndef MEGATRON_CORPUS_WIKI_EXPAND_H
#define MEGATRON_CORPUS_WIKI_EXPAND_H

#include "wiki_looks.h"

enum { WIKI_EXPAND_DEPTH = 40, WIKI_ARGUMENTS = 64 };

enum wiki_expand_mode {
    WIKI_EXPAND_FUNCTIONS, /* like WikiExtractor with --no-templates */
    WIKI_EXPAND_ALL,       /* also the known templates; comments are removed */
};

void wiki_expand(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out, enum wiki_expand_mode mode);
void wiki_frames_destroy(struct wiki_frames *frames);

/* A call: its name, trimmed, and its unmodified arguments. */
struct wiki_call {
    struct wiki_span name;
    struct wiki_span args[WIKI_ARGUMENTS];
    size_t count;
    enum wiki_expand_mode mode;
    const struct wiki_page_info *page;
    const char *extra; /* of a known template: a column of its table */
};

/* The argument number 'position' (from 1), or the one called 'name', trimmed; empty if it is
 * missing. */
struct wiki_span wiki_positional(const struct wiki_call *call, size_t position);
struct wiki_span wiki_named(const struct wiki_call *call, const char *name);

/* Evaluate a parser function or variable. Returns 0 if there is none of this name. */
int wiki_function(const struct wiki_call *call, struct wiki_buffer *out);
/* Evaluate one of the known templates. Returns 0 if it is unknown. */
int wiki_template(struct wiki_call *call, struct wiki_buffer *out);
/* Evaluate {{convert}}, with the arguments of the template. */
void wiki_convert(const struct wiki_call *call, int abbreviate, struct wiki_buffer *out);

/* Format a number like {{formatnum:}}: 12,500. */
void wiki_format_number(struct wiki_span number, struct wiki_buffer *out);
/* Parse a number at the start of a text, ignoring commas. Returns 0 if there is none; '*decimals'
 * is the number of its decimals, or minus the number of trailing zeros. */
int wiki_number(struct wiki_span text, double *value, int *decimals);

/* Evaluate {{#expr:}}. Returns 0 with '*value', or -1 if it is not an expression. '*fraction':
 * there was a division. */
int wiki_expression(struct wiki_span text, double *value, int *fraction);

#endif

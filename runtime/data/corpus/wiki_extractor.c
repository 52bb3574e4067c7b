/* SPDX-License-Identifier: Apache-2.0 */
/* Turns wikitext into the text that WikiExtractor 3.1.0 produces. Its rules were derived from its
 * output; if markup is broken, the order of the passes matters. */
#include "config.h"
#include "wiki_looks.h"
#include "wiki_expand.h"
#include "wiki_passes.h"

#include <stdbool.h>

/* --- Links ------------------------------------------------------------------------------------ */

/* Is the target in another namespace or wiki, as far as its prefix shows? */
static bool is_elsewhere(struct wiki_span target)
{
    static const char *const known[] = {"w", "wikt", "wiktionary"};
    size_t from = target.size > 0 && target.data[0] == ':';
    const char *colon =
        from < target.size ? memchr(target.data + from, ':', target.size - from) : NULL;

    if (!colon)
        return false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t length = strlen(known[i]);

        if ((size_t)(colon - target.data) - from == length &&
            memcmp(target.data + from, known[i], length) == 0)
            return false;
    }
    return true;
}

static void put_link(struct wiki_buffer *out, const char *from, const char *end)
{
    const char *pipe = memchr(from, '|', (size_t)(end - from));
    struct wiki_span target = wiki_span(from, (size_t)((pipe ? pipe : end) - from));
    struct wiki_span label =
        wiki_trim(pipe ? wiki_span(pipe + 1, (size_t)(end - pipe - 1)) : target);

    if (!is_elsewhere(target))
        wiki_copy(out, label.data, label.size);
}

/* Find the outermost links. */
static void find_links(struct wiki_look *look, const struct wiki_buffer *in)
{
    struct wiki_cuts *cuts = &look->cuts;
    const char *end = in->data + in->size;

    look->stack.count = cuts->count = 0;
    for (const char *at = in->data; (at = wiki_scan(at, end, '[', ']')) + 1 < end; at++) {
        size_t place = (size_t)(at - in->data);

        if (at[0] == '[' && at[1] == '[') {
            wiki_cut_add(&look->stack, place, place, WIKI_CUT_DROP, 0);
            if (look->stack.count > look->depth)
                look->depth = look->stack.count;
            at++;
        } else if (at[0] == ']' && at[1] == ']' && look->stack.count > 0) {
            wiki_cut_close(cuts, &look->stack, place + 2);
            at++;
        }
    }
}

static void internal_links(struct wiki_look *look, const struct wiki_buffer *in,
                           struct wiki_buffer *out)
{
    struct wiki_cuts *cuts = &look->cuts;
    size_t at = 0;

    find_links(look, in);
    for (size_t i = 0; i < cuts->count; i++) {
        const struct wiki_cut *cut = &cuts->items[i];
        size_t begin = cut->begin, end = cut->end;

        wiki_copy(out, in->data + at, begin - at);
        /* [[[a]]] is also a link. */
        if (in->data[begin + 2] == '[' && end < in->size && in->data[end] == ']') {
            put_link(out, in->data + begin + 3, in->data + end - 2);
            end++;
        } else {
            put_link(out, in->data + begin + 2, in->data + end - 2);
        }
        at = end;
    }
    wiki_put(out, in->data + at, in->size - at);
}

/* --- Bold and italics ------------------------------------------------------------------------- */

/* Replace pairs of 'count' quotes within the line by 'mark' (may be empty), left to right. */
static void pair_quotes(const char *line, size_t size, size_t count, const char *mark,
                        struct wiki_buffer *out)
{
    static const char quotes[] = "'''''";
    const char *end = line + size, *open, *close;

    while ((open = wiki_find(line, end, quotes + 5 - count)) &&
           (close = wiki_find(open + count, end, quotes + 5 - count))) {
        wiki_put(out, line, (size_t)(open - line));
        wiki_put_text(out, mark);
        wiki_put(out, open + count, (size_t)(close - open - count));
        wiki_put_text(out, mark);
        line = close + count;
    }
    wiki_put(out, line, (size_t)(end - line));
}

static void replace_all(const char *line, size_t size, const char *what, const char *with,
                        struct wiki_buffer *out)
{
    const char *end = line + size, *found;

    while ((found = wiki_find(line, end, what))) {
        wiki_put(out, line, (size_t)(found - line));
        wiki_put_text(out, with);
        line = found + strlen(what);
    }
    wiki_put(out, line, (size_t)(end - line));
}

static void quoted_line(struct wiki_look *look, const char *line, size_t size,
                        struct wiki_buffer *out)
{
    struct wiki_buffer *a = &look->line_a, *b = &look->line_b;

    a->size = b->size = 0;
    pair_quotes(line, size, 5, "", a);
    pair_quotes(a->data, a->size, 3, "", b);
    a->size = 0;
    pair_quotes(b->data, b->size, 2, "\"", a);
    b->size = 0;
    replace_all(a->data, a->size, "'''", "", b);
    replace_all(b->data, b->size, "''", "\"", out);
}

static void quotes(struct wiki_look *look, const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size;

    while (at < end) {
        const char *quote = wiki_find(at, end, "''"), *begin, *stop;

        if (!quote)
            break;
        begin = memrchr(at, '\n', (size_t)(quote - at));
        begin = begin ? begin + 1 : at;
        stop = memchr(quote, '\n', (size_t)(end - quote));
        stop = stop ? stop : end;
        wiki_put(out, at, (size_t)(begin - at));
        quoted_line(look, begin, (size_t)(stop - begin), out);
        at = stop;
    }
    wiki_put(out, at, (size_t)(end - at));
}

/* --- All passes ------------------------------------------------------------------------------- */

void wiki_look_extractor(struct wiki_look *look, const struct wiki_page_info *page)
{
    struct wiki_buffer *a = &look->a, *b = &look->b;

    b->size = 0;
    wiki_expand(look, page, a, b, WIKI_EXPAND_FUNCTIONS);
    a->size = 0;
    wiki_drop_tables(b, a);
    b->size = 0;
    wiki_external_links(a, b);
    a->size = 0;
    internal_links(look, b, a);
    b->size = 0;
    quotes(look, a, b);
    a->size = 0;
    wiki_extractor_tags(look, b, a);
    b->size = 0;
    wiki_extractor_characters(a, b);
    wiki_extractor_lines(b, a, &look->out);
}

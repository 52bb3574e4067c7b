/* SPDX-License-Identifier: Apache-2.0 */
/* Wikitext -> the text that WikiExtractor produces. Its rules were derived from its output; if
 * markup is broken, the order of the passes matters. */
#include "config.h"
#include "wiki_entities.h"
#include "wiki_expand.h"
#include "wiki_looks.h"
#include "wiki_passes.h"
#include "wiki_vector.h"

#include <stdlib.h>
#include "checksum.h"
#include "unicode.h"

/* --- Links ------------------------------------------------------------------------------------ */

static int known_prefix(struct wiki_span prefix)
{
    static const char *const known[] = {"w", "wikt", "wiktionary"};

    for (size_t i = 0; i < 3; i++)
        if (prefix.size == strlen(known[i]) && memcmp(prefix.data, known[i], prefix.size) == 0)
            return 1;
    return 0;
}

/* Is the target in another namespace or wiki, or does it look like that? */
static int is_elsewhere(struct wiki_span target)
{
    size_t from = target.size > 0 && target.data[0] == ':';
    const char *colon =
        from < target.size ? memchr(target.data + from, ':', target.size - from) : NULL;

    return colon &&
           !known_prefix(wiki_span(target.data + from, (size_t)(colon - target.data) - from));
}

static void put_link(struct wiki_buffer *out, const char *from, const char *end)
{
    const char *pipe = memchr(from, '|', (size_t)(end - from));
    struct wiki_span target = wiki_span(from, (size_t)((pipe ? pipe : end) - from));
    struct wiki_span label =
        wiki_trim(pipe ? wiki_span(pipe + 1, (size_t)(end - pipe - 1)) : target);

    if (!is_elsewhere(target))
        wiki_put(out, label.data, label.size);
}

/* Find the links that are not inside another link. */
static void find_links(struct wiki_look *look, const struct wiki_buffer *in, int strict)
{
    struct wiki_cuts *cuts = &look->cuts;
    const char *end = in->data + in->size;

    look->stack.count = cuts->count = 0;
    for (const char *at = in->data; (at = wiki_scan(at, end, '[', ']')) + 1 < end; at++) {
        size_t place = (size_t)(at - in->data), begin;

        if (at[0] == '[' && at[1] == '[') {
            wiki_cut_add(&look->stack, place, place, WIKI_CUT_DROP, 0);
            at++;
        } else if (at[0] == ']' && at[1] == ']' && look->stack.count > 0) {
            begin = look->stack.items[--look->stack.count].begin;
            at++;
            if (strict && look->stack.count > 0)
                continue;
            while (cuts->count > 0 && cuts->items[cuts->count - 1].begin > begin)
                cuts->count--;
            wiki_cut_add(cuts, begin, place + 2, WIKI_CUT_DROP, 0);
        }
    }
}

/* 'strict': a bracket that is never closed leaves everything after it unchanged (3.0). */
static void internal_links(struct wiki_look *look, const struct wiki_buffer *in,
                           struct wiki_buffer *out, int strict)
{
    struct wiki_cuts *cuts = &look->cuts;
    size_t at = 0;

    find_links(look, in, strict);
    for (size_t i = 0; i < cuts->count; i++) {
        const struct wiki_cut *cut = &cuts->items[i];
        size_t begin = cut->begin, end = cut->end;

        wiki_put(out, in->data + at, begin - at);
        /* 3.1: [[[a]]] is a, too. */
        if (!strict && in->data[begin + 2] == '[' && end < in->size && in->data[end] == ']') {
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
    if (a->failed || b->failed)
        out->failed = 1;
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

/* --- Tags ------------------------------------------------------------------------------------- */

enum tag_rule {
    TAG_DISCARD = 1, /* with its content */
    TAG_STRIP = 2,   /* only the tag */
    TAG_EMPTY = 4,   /* only if it is <tag/> */
    TAG_MATH = 8,
    TAG_CODE = 16,
    TAG_BLOCK = 32,  /* 3.1: ends the line */
    TAG_BREAK = 64,  /* 3.1: is a space, with or without a slash */
    TAG_ONLY31 = 128 /* unknown to 3.0 */
};

static const struct tag_row {
    const char *name;
    int rule;
} tag_rows[] = {
    {"abbr", TAG_STRIP},
    {"b", TAG_STRIP},
    {"bdi", TAG_STRIP | TAG_ONLY31},
    {"big", TAG_STRIP},
    {"blockquote", TAG_STRIP},
    {"br", TAG_EMPTY | TAG_BREAK},
    {"caption", TAG_DISCARD},
    {"categorytree", TAG_DISCARD | TAG_ONLY31},
    {"center", TAG_STRIP | TAG_BLOCK},
    {"cite", TAG_STRIP},
    {"code", TAG_CODE},
    {"dd", TAG_DISCARD},
    {"dir", TAG_DISCARD},
    {"div", TAG_STRIP},
    {"dl", TAG_DISCARD},
    {"dt", TAG_DISCARD},
    {"em", TAG_STRIP},
    {"font", TAG_STRIP},
    {"form", TAG_DISCARD},
    {"gallery", TAG_DISCARD},
    {"h1", TAG_STRIP | TAG_BLOCK},
    {"h2", TAG_STRIP | TAG_BLOCK},
    {"h3", TAG_STRIP | TAG_BLOCK},
    {"h4", TAG_STRIP | TAG_BLOCK},
    {"hiero", TAG_STRIP},
    {"hr", TAG_EMPTY | TAG_BREAK},
    {"i", TAG_STRIP},
    {"imagemap", TAG_DISCARD},
    {"includeonly", TAG_DISCARD | TAG_ONLY31},
    {"input", TAG_DISCARD},
    {"inputbox", TAG_DISCARD | TAG_ONLY31},
    {"kbd", TAG_STRIP},
    {"li", TAG_DISCARD},
    {"math", TAG_MATH},
    {"menu", TAG_DISCARD},
    {"nobr", TAG_EMPTY},
    {"noinclude", TAG_DISCARD},
    {"nowiki", TAG_STRIP},
    {"ol", TAG_DISCARD},
    {"option", TAG_DISCARD},
    {"p", TAG_STRIP | TAG_BLOCK},
    {"plaintext", TAG_STRIP},
    {"poem", TAG_STRIP | TAG_ONLY31},
    {"pre", TAG_DISCARD},
    {"ref", TAG_DISCARD | TAG_EMPTY},
    {"references", TAG_DISCARD | TAG_EMPTY},
    {"s", TAG_STRIP},
    {"section", TAG_STRIP | TAG_ONLY31},
    {"select", TAG_DISCARD},
    {"small", TAG_DISCARD},
    {"source", TAG_DISCARD},
    {"span", TAG_STRIP},
    {"strike", TAG_STRIP},
    {"strong", TAG_STRIP},
    {"sub", TAG_STRIP},
    {"sup", TAG_STRIP},
    {"syntaxhighlight", TAG_DISCARD},
    {"table", TAG_DISCARD},
    {"td", TAG_DISCARD},
    {"templatestyles", TAG_STRIP | TAG_ONLY31},
    {"textarea", TAG_DISCARD},
    {"th", TAG_DISCARD},
    {"timeline", TAG_DISCARD},
    {"tr", TAG_DISCARD},
    {"tt", TAG_STRIP},
    {"u", TAG_STRIP},
    {"ul", TAG_DISCARD},
    {"var", TAG_STRIP},
};
enum { TAG_ROWS = sizeof(tag_rows) / sizeof(tag_rows[0]) };

static int find_tag(struct wiki_span name, int newer)
{
    size_t low = 0, high = TAG_ROWS;
    char lower[20];

    if (name.size >= sizeof(lower))
        return -1;
    for (size_t i = 0; i < name.size; i++)
        lower[i] = wiki_lower(name.data[i]);
    lower[name.size] = '\0';
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(lower, tag_rows[middle].name);

        if (order == 0)
            return !newer && tag_rows[middle].rule & TAG_ONLY31 ? -1 : (int)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* One kind of element that is dropped with its content: its nesting depth, and where it began. */
struct element {
    size_t depth, start, closed;
};

struct tags {
    struct wiki_look *look;
    const char *begin, *end;
    struct element elements[TAG_ROWS];
    const char *no_close[2]; /* of math and code: none after this position */
    unsigned numbers[2];
    int newer, comments; /* comments: may there be more of them? */
};

/* Equal formulas have the number of the first of them; each counts. */
static unsigned number_of(struct tags *tags, int which, const char *data, size_t size)
{
    struct wiki_look *look = tags->look;
    uint64_t sum = checksum_of(data, size) + (uint64_t)which;
    unsigned number = ++tags->numbers[which];

    for (size_t i = (size_t)sum % WIKI_LOOK_NUMBERS, tries = 0; tries < 64;
         i = (i + 1) % WIKI_LOOK_NUMBERS, tries++) {
        if (look->numbers[i].stamp != look->stamp) {
            look->numbers[i].stamp = look->stamp;
            look->numbers[i].sum = sum;
            look->numbers[i].number = number;
            return number;
        }
        if (look->numbers[i].sum == sum)
            return look->numbers[i].number;
    }
    return number;
}

/* <math> and <code>: returns the end of the element, or NULL if it is not one. */
static const char *placeholder(struct tags *tags, const char *at, const struct wiki_tag *tag,
                               int which)
{
    static const char *const closes[2] = {"</math>", "</code>"};
    const char *stop = NULL;
    size_t length = strlen(closes[which]);

    if (tag->closing || tag->empty || tags->no_close[which])
        return NULL;
    for (stop = at + tag->length; (stop = wiki_find(stop, tags->end, "</")); stop += 2)
        if ((size_t)(tags->end - stop) >= length && wiki_is(wiki_span(stop, length), closes[which]))
            break;
    if (!stop) {
        tags->no_close[which] = at;
        return NULL;
    }
    stop += length;
    wiki_cut_add(&tags->look->cuts, (size_t)(at - tags->begin), (size_t)(stop - tags->begin),
                 which ? WIKI_CUT_CODE : WIKI_CUT_FORMULA,
                 number_of(tags, which, at, (size_t)(stop - at)));
    return stop;
}

static void discard(struct tags *tags, struct element *element, const char *at,
                    const struct wiki_tag *tag)
{
    size_t place = (size_t)(at - tags->begin);

    if (!tag->closing) {
        if (element->depth++ == 0) {
            element->start = place;
            element->closed = 0;
        }
    } else if (element->depth > 0) {
        element->closed = place + tag->length;
        if (--element->depth == 0)
            wiki_cut_add(&tags->look->cuts, element->start, element->closed, WIKI_CUT_DROP, 0);
    } else if (tags->newer) {
        wiki_cut_add(&tags->look->cuts, place, place + tag->length, WIKI_CUT_DROP, 0);
    }
}

/* Record what becomes of the tag at 'at'. Returns where to continue. */
static const char *take_tag(struct tags *tags, const char *at, const struct wiki_tag *tag)
{
    int row = find_tag(tag->name, tags->newer), rule = row < 0 ? 0 : tag_rows[row].rule;
    size_t place = (size_t)(at - tags->begin);
    const char *stop;
    int kind = WIKI_CUT_DROP;

    if (rule & (TAG_MATH | TAG_CODE)) {
        stop = placeholder(tags, at, tag, rule & TAG_CODE ? 1 : 0);
        return stop ? stop : at + 1;
    }
    if (tags->newer && rule & TAG_BLOCK)
        kind = WIKI_CUT_BREAK;
    if (tags->newer && rule & TAG_BREAK)
        kind = WIKI_CUT_SPACE;
    if (rule & TAG_STRIP || (rule & TAG_EMPTY && tag->empty) ||
        (tags->newer && rule & (TAG_BREAK | TAG_EMPTY) && !(rule & TAG_DISCARD) && !tag->closing))
        wiki_cut_add(&tags->look->cuts, place, place + tag->length, kind, 0);
    else if (rule & TAG_DISCARD)
        discard(tags, &tags->elements[row], at, tag);
    else
        return at + 1;
    return at + tag->length;
}

static const char *take_comment(struct tags *tags, const char *at)
{
    const char *stop = tags->comments ? wiki_find(at + 4, tags->end, "-->") : NULL;

    tags->comments = stop != NULL;
    if (!stop)
        return at + 1;
    wiki_cut_add(&tags->look->cuts, (size_t)(at - tags->begin), (size_t)(stop + 3 - tags->begin),
                 WIKI_CUT_DROP, 0);
    return stop + 3;
}

static void strip_tags(struct wiki_look *look, const struct wiki_buffer *in,
                       struct wiki_buffer *out, int newer)
{
    struct tags tags = {
        .look = look, .begin = in->data, .end = in->data + in->size, .newer = newer, .comments = 1};
    const char *at = in->data;

    look->cuts.count = 0;
    look->stamp++;
    while (at < tags.end && (at = memchr(at, '<', (size_t)(tags.end - at)))) {
        struct wiki_tag tag;

        if (tags.end - at >= 4 && memcmp(at, "<!--", 4) == 0) {
            at = take_comment(&tags, at);
            continue;
        }
        tag = wiki_tag(at, tags.end);
        if (tag.endless)
            break;
        at = tag.length > 0 ? take_tag(&tags, at, &tag) : at + 1;
    }
    for (size_t i = 0; i < TAG_ROWS; i++) {
        const struct element *element = &tags.elements[i];

        if (element->depth == 0)
            continue;
        if (element->closed > 0)
            wiki_cut_add(&look->cuts, element->start, element->closed, WIKI_CUT_DROP, 0);
        else if (newer && strcmp(tag_rows[i].name, "noinclude") == 0)
            wiki_cut_add(&look->cuts, element->start, element->start + 11, WIKI_CUT_DROP, 0);
    }
    wiki_cut_apply(&look->cuts, in, out);
}

/* --- Characters ------------------------------------------------------------------------------- */

static void put_space(struct wiki_buffer *out, int newer)
{
    size_t size = out->size;

    if (size > 0 && out->data[size - 1] == ' ')
        return;
    if (newer && size > 0 &&
        (out->data[size - 1] == '(' || out->data[size - 1] == '[' ||
         (size > 1 && memcmp(out->data + size - 2, "\xc2\xab", 2) == 0)))
        return;
    wiki_put_char(out, ' ');
}

static void drop_space(struct wiki_buffer *out, int newer)
{
    if (newer && out->size > 0 && out->data[out->size - 1] == ' ')
        out->size--;
}

/* Characters that mean something to 'characters'. */
static const char special[256] = {[' '] = 1,  ['\t'] = 1,
                                  ['&'] = 1,  ['<'] = 1,
                                  ['>'] = 1,  ['.'] = 1,
                                  ['"'] = 1,  [','] = 1,
                                  [':'] = 1,  [')'] = 1,
                                  [']'] = 1,  ['_'] = 1,
                                  ['\r'] = 1, [(unsigned char)'\xc2'] = 1};

/* A space between two characters that mean nothing: most of them are. */
static inline int is_plain_space(const char *from, const char *at)
{
    return at > from && !special[(unsigned char)at[1]] && at[-1] != '(' && at[-1] != '[' &&
           at[-1] != '\xab';
}

#ifdef __SSE2__
/* 'special' without the space; other control characters are no harm, since they stay as they are.
 */
static inline unsigned special_bits(__m128i bytes)
{
    __m128i low = wiki_vector_or(wiki_vector_in(bytes, 0, ' ' - 1), wiki_vector_is(bytes, '"'));
    __m128i marks = wiki_vector_or(wiki_vector_is(bytes, '&'), wiki_vector_is(bytes, ')'));
    __m128i stops = wiki_vector_or(wiki_vector_is(bytes, ','), wiki_vector_is(bytes, '.'));
    __m128i angles = wiki_vector_or(wiki_vector_is(bytes, '<'), wiki_vector_is(bytes, '>'));
    __m128i ends = wiki_vector_or(wiki_vector_is(bytes, ':'), wiki_vector_is(bytes, ']'));
    __m128i rest = wiki_vector_or(wiki_vector_is(bytes, '_'), wiki_vector_is(bytes, '\xc2'));

    return wiki_vector_bits(
        wiki_vector_or(wiki_vector_or(wiki_vector_or(low, marks), wiki_vector_or(stops, angles)),
                       wiki_vector_or(ends, rest)));
}

/* Before a space: characters that 3.1 lets swallow it. */
static inline unsigned opening_bits(__m128i bytes)
{
    return wiki_vector_bits(
        wiki_vector_or(wiki_vector_or(wiki_vector_is(bytes, '('), wiki_vector_is(bytes, '[')),
                       wiki_vector_is(bytes, '\xab')));
}
#endif

/* The first character from 'from' on that is special, except spaces between two that are not. The
 * text is sealed with one. */
static const char *find_special(const char *from, const char *end)
{
    const char *at = from;

#ifdef __SSE2__
    unsigned opened = 1; /* by the byte before: a space at the begin is special */

    /* The last byte only tells what comes after the one before it. */
    for (; end - at >= WIKI_VECTOR; at += WIKI_VECTOR - 1) {
        __m128i bytes = wiki_vector(at);
        unsigned marks = special_bits(bytes), opening = opening_bits(bytes);
        unsigned spaces = wiki_vector_bits(wiki_vector_is(bytes, ' '));
        unsigned before = opening << 1 | opened, stop;

        stop = (marks | (spaces & ((marks | spaces) >> 1 | before))) & 0x7fff;
        if (stop)
            return at + __builtin_ctz(stop);
        opened = opening >> (WIKI_VECTOR - 2) & 1;
    }
#endif
    while (*(at = wiki_skip(at, special)) == ' ' && is_plain_space(from, at))
        at += 2;
    return at;
}

static const char *put_dots(const char *at, const char *end, struct wiki_buffer *out, int newer)
{
    const char *from = at;

    while (at < end && *at == '.')
        at++;
    drop_space(out, newer);
    wiki_put(out, "...", at - from > 3 ? 3 : (size_t)(at - from));
    return at;
}

static const char *put_reference(const char *at, const char *end, struct wiki_buffer *out,
                                 int newer)
{
    uint32_t point;
    size_t length = at + 2 < end && at[2] == 'X' ? 0 : wiki_entity(at, end, &point);

    if (length == 0) {
        wiki_put_char(out, '&');
        return at + 1;
    }
    if (point == ' ' || point == '\t')
        put_space(out, newer);
    else if (point == 0)
        wiki_put_char(out, ' ');
    else
        wiki_put_point(out, point);
    return at + length;
}

/* ""a"" is "a": the position of the quotes that match those at 'at', or NULL. */
static const char *second_quotes(const char *at, const char *end)
{
    const char *next = end - at > 2 ? memchr(at + 2, '"', (size_t)(end - at - 2)) : NULL;

    return next && next + 1 < end && next[1] == '"' ? next : NULL;
}

static void characters(const struct wiki_buffer *in, struct wiki_buffer *out, int newer)
{
    const char *at = in->data, *end = at + in->size, *second = NULL;

    wiki_seal(in, '&');
    while (at < end) {
        const char *from = at;
        size_t length;

        at = find_special(at, end);
        wiki_put(out, from, (size_t)(at - from));
        if (at == end)
            break;
        if (*at == ' ' || *at == '\t') {
            put_space(out, newer);
            at++;
        } else if (*at == '&') {
            at = put_reference(at, end, out, newer);
        } else if (*at == '.') {
            at = put_dots(at, end, out, newer);
        } else if ((*at == '<' || *at == '>') && at + 1 < end && at[1] == *at) {
            if (*at == '>')
                drop_space(out, newer);
            wiki_put(out, *at == '<' ? "\xc2\xab" : "\xc2\xbb", 2);
            at += 2;
        } else if (*at == '"' && at + 1 < end && at[1] == '"' &&
                   (at == second || (second = second_quotes(at, end)))) {
            wiki_put_char(out, '"');
            at += 2;
        } else if (*at == '_' && (length = wiki_switch(at, end, newer)) > 0) {
            at += length;
        } else if (*at == '\r') {
            if (at + 1 == end || at[1] != '\n')
                wiki_put_char(out, '\n');
            at++;
        } else {
            if (*at == ',' || *at == ':' || *at == ')' || *at == ']' ||
                (*at == '\xc2' && at + 1 < end && at[1] == '\xbb'))
                drop_space(out, newer);
            wiki_put_char(out, *at++);
        }
    }
}

/* --- Lines ------------------------------------------------------------------------------------ */

/* Is the character at 'at' not part of a word? '*length' becomes its length. */
static int is_other(const char *at, const char *end, size_t *length)
{
    uint32_t point;
    enum unicode_class class;

    *length = utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
    class = point == UNICODE_INVALID ? UNICODE_OTHER : unicode_class(point);
    return class != UNICODE_LETTER && class != UNICODE_NUMBER && *at != '_';
}

/* A line end, one or more characters that are not part of a word, and a line end count as one line
 * end. Returns the position of the second one, or NULL. */
static const char *odd_line(const char *at, const char *end)
{
    size_t length;

    if (at + 1 >= end || !is_other(at + 1, end, &length))
        return NULL;
    for (at += 1 + length; at < end && *at != '\n'; at += length)
        if (!is_other(at, end, &length))
            return NULL;
    return at < end ? at : NULL;
}

static void odd_lines(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size, *kept = at, *stop;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        stop = odd_line(at, end);
        if (!stop) {
            at++;
            continue;
        }
        wiki_put(out, kept, (size_t)(at - kept));
        kept = stop;
        at = stop + 1;
    }
    wiki_put(out, kept, (size_t)(end - kept));
}

#ifdef __SSE2__
static inline __m128i line_marks(__m128i bytes)
{
    __m128i commas = wiki_vector_or(wiki_vector_is(bytes, ','), wiki_vector_is(bytes, '&'));

    return wiki_vector_or(commas,
                          wiki_vector_or(wiki_vector_is(bytes, '<'), wiki_vector_is(bytes, '>')));
}
#endif

/* The first character in [at, end) that put_line changes, or 'end'. */
static const char *find_change(const char *at, const char *end)
{
#ifdef __SSE2__
    at = wiki_vector_find(at, end, line_marks);
#endif
    while (at < end && *at != ',' && *at != '&' && *at != '<' && *at != '>')
        at++;
    return at;
}

/* A line of output: commas reduced, HTML's special characters escaped. */
static void put_line(struct wiki_buffer *out, const char *line, size_t size)
{
    if (out->size > 0)
        wiki_put_char(out, '\n');
    for (const char *end = line + size; line < end;) {
        const char *from = line;
        size_t commas;

        line = find_change(line, end);
        wiki_put(out, from, (size_t)(line - from));
        if (line == end)
            return;
        if (*line != ',') {
            wiki_put_text(out, *line == '&' ? "&amp;" : *line == '<' ? "&lt;" : "&gt;");
            line++;
            continue;
        }
        for (from = line; line < end && *line == ',';)
            line++;
        commas = (size_t)(line - from + 1) / 2 - (line < end && *line == '.');
        for (; commas > 0; commas--)
            wiki_put_char(out, ',');
    }
}

struct heading {
    const char *data;
    size_t size;
};

/* Headings are written together with the first text that follows. */
static void put_headings(struct wiki_buffer *out, struct heading *pending)
{
    for (int i = 0; i < WIKI_LEVELS; i++) {
        size_t before = out->size;

        if (!pending[i].data)
            continue;
        put_line(out, pending[i].data, pending[i].size);
        if (out->size > before && out->data[out->size - 1] != '!' &&
            out->data[out->size - 1] != '?')
            wiki_put_char(out, '.');
        pending[i].data = NULL;
    }
}

static int is_dropped(const char *line, size_t size, int newer)
{
    char first = line[0], last = line[size - 1];

    if (first == '*' || first == '#' || first == ';' || (first == ':' && !newer) || first == '{' ||
        first == '|' || last == '}' || (first == '(' && last == ')'))
        return 1;
    for (size_t i = 0; i < size; i++)
        if (line[i] != '.' && line[i] != '-')
            return 0;
    return 1;
}

static int is_white(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!wiki_is_space(line[i]))
            return 0;
    return 1;
}

static void compact(const struct wiki_buffer *in, struct wiki_buffer *out, int newer)
{
    const char *at = in->data, *end = at + in->size;
    struct heading pending[WIKI_LEVELS] = {{NULL, 0}};

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *line = at;
        size_t size = (size_t)((stop ? stop : end) - at);
        struct wiki_span heading;
        int level = wiki_heading(wiki_span(line, size), &heading);

        at += size + 1;
        if (level > 0) {
            for (int i = level; i < WIKI_LEVELS; i++)
                pending[i].data = NULL;
            if (heading.size > 0)
                pending[level] = (struct heading){heading.data, heading.size};
            continue;
        }
        if (is_white(line, size) || is_dropped(line, size, newer))
            continue;
        /* 3.1: an indented line is written without its headings. */
        if (*line != ':')
            put_headings(out, pending);
        while (size > 0 && *line == ':') {
            line++;
            size--;
        }
        if (size == 0)
            continue;
        put_line(out, line, size);
    }
}

void wiki_look_extractor(struct wiki_look *look, const struct wiki_page_info *page, int newer)
{
    struct wiki_buffer *a = &look->a, *b = &look->b;

    b->size = 0;
    if (newer)
        wiki_expand(look, page, a, b, WIKI_EXPAND_FUNCTIONS);
    else
        wiki_drop_nested(a, b, "{{", "}}");
    a->size = 0;
    wiki_drop_nested(b, a, "{|", "|}");
    b->size = 0;
    wiki_external_links(a, b);
    a->size = 0;
    internal_links(look, b, a, !newer);
    b->size = 0;
    quotes(look, a, b);
    a->size = 0;
    strip_tags(look, b, a, newer);
    b->size = 0;
    characters(a, b, newer);
    a->size = 0;
    odd_lines(b, a);
    look->out.size = 0;
    compact(a, &look->out, newer);
}

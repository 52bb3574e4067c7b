/* SPDX-License-Identifier: Apache-2.0 */
/* WikiExtractor's treatment of tags. */
#include "config.h"
#include "lib/checksum.h"
#include "wiki_extractor.h"
#include "wiki_passes.h"

#include <stdbool.h>

enum tag_rule {
    TAG_DISCARD = 1, /* drop with the content */
    TAG_STRIP = 2,   /* drop the tag only */
    TAG_EMPTY = 4,   /* drop if it is <tag/> */
    TAG_MATH = 8,
    TAG_CODE = 16,
    TAG_BLOCK = 32, /* ends the line */
    TAG_BREAK = 64, /* becomes a space, with or without a slash */
};

static const struct tag_row {
    const char *name;
    int rule;
} tag_rows[] = {
    {"abbr", TAG_STRIP},
    {"b", TAG_STRIP},
    {"bdi", TAG_STRIP},
    {"big", TAG_STRIP},
    {"blockquote", TAG_STRIP},
    {"br", TAG_EMPTY | TAG_BREAK},
    {"caption", TAG_DISCARD},
    {"categorytree", TAG_DISCARD},
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
    {"includeonly", TAG_DISCARD},
    {"input", TAG_DISCARD},
    {"inputbox", TAG_DISCARD},
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
    {"poem", TAG_STRIP},
    {"pre", TAG_DISCARD},
    {"ref", TAG_DISCARD | TAG_EMPTY},
    {"references", TAG_DISCARD | TAG_EMPTY},
    {"s", TAG_STRIP},
    {"section", TAG_STRIP},
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
    {"templatestyles", TAG_STRIP},
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

static int find_tag(struct wiki_span name)
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
            return (int)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* A kind of element that is dropped with its content: nesting depth, and start. */
struct element {
    size_t depth, start, closed;
};

struct tags {
    struct wiki_look *look;
    const char *begin, *end;
    struct element elements[TAG_ROWS];
    const char *no_close[2]; /* of math and code: none after this position */
    unsigned numbers[2];
    bool comments; /* there may be more of them */
};

/* Equal formulas share the number of the first one, but each is counted. */
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

/* Replace <math> or <code>. Returns the end of the element, or NULL if it is not one. */
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
    } else {
        wiki_cut_add(&tags->look->cuts, place, place + tag->length, WIKI_CUT_DROP, 0);
    }
}

/* Record the cut for the tag at 'at'. Returns where to continue. */
static const char *take_tag(struct tags *tags, const char *at, const struct wiki_tag *tag)
{
    int row = find_tag(tag->name), rule = row < 0 ? 0 : tag_rows[row].rule;
    size_t place = (size_t)(at - tags->begin);
    const char *stop;
    int kind = WIKI_CUT_DROP;

    if (rule & (TAG_MATH | TAG_CODE)) {
        stop = placeholder(tags, at, tag, rule & TAG_CODE ? 1 : 0);
        return stop ? stop : at + 1;
    }
    if (rule & TAG_BLOCK)
        kind = WIKI_CUT_BREAK;
    if (rule & TAG_BREAK)
        kind = WIKI_CUT_SPACE;
    if (rule & TAG_STRIP || (rule & TAG_EMPTY && tag->empty) ||
        (rule & (TAG_BREAK | TAG_EMPTY) && !(rule & TAG_DISCARD) && !tag->closing))
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

void wiki_extractor_tags(struct wiki_look *look, const struct wiki_buffer *in,
                         struct wiki_buffer *out)
{
    struct tags tags = {
        .look = look, .begin = in->data, .end = in->data + in->size, .comments = true};
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
        else if (strcmp(tag_rows[i].name, "noinclude") == 0)
            wiki_cut_add(&look->cuts, element->start, element->start + 11, WIKI_CUT_DROP, 0);
    }
    wiki_cut_apply(&look->cuts, in, out);
}

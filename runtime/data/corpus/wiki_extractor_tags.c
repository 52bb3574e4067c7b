/* SPDX-License-Identifier: Apache-2.0 */
/* WikiExtractor's treatment of tags. */
#include "config.h"
#include "lib/checksum.h"
#include "wiki_looks.h"
#include "wiki_passes.h"
#include "wiki_tags.h"

#include <stdbool.h>

/* A kind of element that is dropped with its content: nesting depth, and start. */
struct element {
    size_t depth, start, closed;
};

struct tags {
    struct wiki_look *look;
    const char *begin, *end;
    struct element elements[WIKI_TAGS];
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
    const char *stop;

    if (tag->closing || tag->empty || tags->no_close[which])
        return NULL;
    stop = wiki_end_tag(at + tag->length, tags->end, which ? "code" : "math", false);
    if (!stop) {
        tags->no_close[which] = at;
        return NULL;
    }
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
    size_t number = wiki_tag_number(tag->name);
    int rule = wiki_tags[number].extract;
    size_t place = (size_t)(at - tags->begin);
    const char *stop;
    int kind = WIKI_CUT_DROP;

    if (rule & (EXTRACT_MATH | EXTRACT_CODE)) {
        stop = placeholder(tags, at, tag, rule & EXTRACT_CODE ? 1 : 0);
        return stop ? stop : at + 1;
    }
    if (rule & EXTRACT_BLOCK)
        kind = WIKI_CUT_BREAK;
    if (rule & EXTRACT_BREAK)
        kind = WIKI_CUT_SPACE;
    if (rule & EXTRACT_STRIP || (rule & EXTRACT_EMPTY && tag->empty) ||
        (rule & (EXTRACT_BREAK | EXTRACT_EMPTY) && !(rule & EXTRACT_DISCARD) && !tag->closing))
        wiki_cut_add(&tags->look->cuts, place, place + tag->length, kind, 0);
    else if (rule & EXTRACT_DISCARD)
        discard(tags, &tags->elements[number], at, tag);
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

        if (wiki_begins(at, tags.end, "<!--")) {
            at = take_comment(&tags, at);
            continue;
        }
        tag = wiki_tag(at, tags.end);
        if (tag.endless)
            break;
        at = tag.length > 0 ? take_tag(&tags, at, &tag) : at + 1;
    }
    for (size_t i = 0; i < WIKI_TAGS; i++) {
        const struct element *element = &tags.elements[i];

        if (element->depth == 0)
            continue;
        if (element->closed > 0)
            wiki_cut_add(&look->cuts, element->start, element->closed, WIKI_CUT_DROP, 0);
        else if (strcmp(wiki_tags[i].name, "noinclude") == 0)
            wiki_cut_add(&look->cuts, element->start, element->start + 11, WIKI_CUT_DROP, 0);
    }
    wiki_cut_apply(&look->cuts, in, out);
}

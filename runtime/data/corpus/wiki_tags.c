/* SPDX-License-Identifier: Apache-2.0 */
/* The tags of wikitext, and what each look does with them. */
#include "config.h"
#include "wiki_tags.h"

/* The longest tag whose element is skipped. */
enum { TAG_LIMIT = 4096 };

/* Sorted by name. What is not given: kept as it is, needs no end tag, is not opaque. */
const struct wiki_tag_rules wiki_tags[] = {
    {"abbr", CLEAN_STRIP, EXTRACT_STRIP},
    {"b", CLEAN_STRIP, EXTRACT_STRIP},
    {"bdi", CLEAN_STRIP, EXTRACT_STRIP},
    {"bdo", CLEAN_STRIP},
    {"big", CLEAN_STRIP, EXTRACT_STRIP},
    {"blockquote", CLEAN_LINE, EXTRACT_STRIP},
    {"br", CLEAN_LINE, EXTRACT_EMPTY | EXTRACT_BREAK},
    {"caption", CLEAN_KEEP, EXTRACT_DISCARD},
    {"categorytree", CLEAN_DROP, EXTRACT_DISCARD},
    {"ce", CLEAN_STRIP, EXTRACT_KEEP, CLOSE_RAW},
    {"center", CLEAN_LINE, EXTRACT_STRIP | EXTRACT_BLOCK},
    {"chem", CLEAN_STRIP, EXTRACT_KEEP, CLOSE_RAW},
    {"cite", CLEAN_STRIP, EXTRACT_STRIP},
    {"code", CLEAN_RAW, EXTRACT_CODE, CLOSE_RAW, OPAQUE_PAGE},
    {"data", CLEAN_STRIP},
    {"dd", CLEAN_LINE, EXTRACT_DISCARD},
    {"del", CLEAN_STRIP},
    {"dfn", CLEAN_STRIP},
    {"dir", CLEAN_KEEP, EXTRACT_DISCARD},
    {"div", CLEAN_LINE, EXTRACT_STRIP},
    {"dl", CLEAN_LINE, EXTRACT_DISCARD},
    {"dt", CLEAN_LINE, EXTRACT_DISCARD},
    {"em", CLEAN_STRIP, EXTRACT_STRIP},
    {"font", CLEAN_STRIP, EXTRACT_STRIP},
    {"form", CLEAN_KEEP, EXTRACT_DISCARD},
    {"gallery", CLEAN_DROP, EXTRACT_DISCARD, CLOSE_FRAME},
    {"graph", CLEAN_DROP, EXTRACT_KEEP, CLOSE_RAW},
    {"h1", CLEAN_LINE, EXTRACT_STRIP | EXTRACT_BLOCK},
    {"h2", CLEAN_LINE, EXTRACT_STRIP | EXTRACT_BLOCK},
    {"h3", CLEAN_LINE, EXTRACT_STRIP | EXTRACT_BLOCK},
    {"h4", CLEAN_LINE, EXTRACT_STRIP | EXTRACT_BLOCK},
    {"h5", CLEAN_LINE},
    {"h6", CLEAN_LINE},
    {"hiero", CLEAN_DROP, EXTRACT_STRIP, CLOSE_RAW},
    {"hr", CLEAN_LINE, EXTRACT_EMPTY | EXTRACT_BREAK},
    {"i", CLEAN_STRIP, EXTRACT_STRIP},
    {"imagemap", CLEAN_DROP, EXTRACT_DISCARD, CLOSE_FRAME},
    {"includeonly", CLEAN_DROP, EXTRACT_DISCARD, CLOSE_REST},
    {"indicator", CLEAN_DROP},
    {"input", CLEAN_KEEP, EXTRACT_DISCARD},
    {"inputbox", CLEAN_DROP, EXTRACT_DISCARD, CLOSE_RAW},
    {"ins", CLEAN_STRIP},
    {"kbd", CLEAN_STRIP, EXTRACT_STRIP},
    {"langconvert", CLEAN_STRIP},
    {"li", CLEAN_ITEM, EXTRACT_DISCARD},
    {"mapframe", CLEAN_DROP, EXTRACT_KEEP, CLOSE_RAW},
    {"maplink", CLEAN_DROP, EXTRACT_KEEP, CLOSE_RAW},
    {"mark", CLEAN_STRIP},
    {"math", CLEAN_MATH, EXTRACT_MATH, CLOSE_RAW, OPAQUE_PAGE | OPAQUE_TEMPLATE},
    {"menu", CLEAN_KEEP, EXTRACT_DISCARD},
    {"nobr", CLEAN_STRIP, EXTRACT_EMPTY},
    {"noinclude", CLEAN_STRIP, EXTRACT_DISCARD, CLOSE_ANY, OPAQUE_TEMPLATE},
    {"nowiki", CLEAN_RAW, EXTRACT_STRIP, CLOSE_RAW, OPAQUE_PAGE | OPAQUE_TEMPLATE},
    {"ol", CLEAN_LINE, EXTRACT_DISCARD},
    {"onlyinclude", CLEAN_STRIP},
    {"option", CLEAN_KEEP, EXTRACT_DISCARD},
    {"p", CLEAN_LINE, EXTRACT_STRIP | EXTRACT_BLOCK},
    {"plaintext", CLEAN_KEEP, EXTRACT_STRIP},
    {"poem", CLEAN_LINE, EXTRACT_STRIP, CLOSE_FRAME},
    {"pre", CLEAN_RAW, EXTRACT_DISCARD, CLOSE_RAW, OPAQUE_PAGE | OPAQUE_TEMPLATE},
    {"q", CLEAN_STRIP},
    {"rb", CLEAN_STRIP},
    {"ref", CLEAN_DROP, EXTRACT_DISCARD | EXTRACT_EMPTY, CLOSE_FRAME},
    {"references", CLEAN_DROP, EXTRACT_DISCARD | EXTRACT_EMPTY, CLOSE_FRAME},
    {"rp", CLEAN_DROP},
    {"rt", CLEAN_RUBY},
    {"ruby", CLEAN_STRIP},
    {"s", CLEAN_STRIP, EXTRACT_STRIP},
    {"samp", CLEAN_STRIP},
    {"score", CLEAN_DROP, EXTRACT_KEEP, CLOSE_RAW, OPAQUE_PAGE},
    {"section", CLEAN_STRIP, EXTRACT_STRIP},
    {"select", CLEAN_KEEP, EXTRACT_DISCARD},
    {"small", CLEAN_STRIP, EXTRACT_DISCARD},
    {"source", CLEAN_RAW, EXTRACT_DISCARD, CLOSE_RAW, OPAQUE_PAGE | OPAQUE_TEMPLATE},
    {"span", CLEAN_STRIP, EXTRACT_STRIP},
    {"strike", CLEAN_STRIP, EXTRACT_STRIP},
    {"strong", CLEAN_STRIP, EXTRACT_STRIP},
    {"style", CLEAN_DROP},
    {"sub", CLEAN_SUB, EXTRACT_STRIP},
    {"sup", CLEAN_SUP, EXTRACT_STRIP},
    {"syntaxhighlight", CLEAN_RAW, EXTRACT_DISCARD, CLOSE_RAW, OPAQUE_PAGE | OPAQUE_TEMPLATE},
    {"table", CLEAN_DROP, EXTRACT_DISCARD, CLOSE_TABLE},
    {"td", CLEAN_STRIP, EXTRACT_DISCARD},
    {"templatedata", CLEAN_DROP, EXTRACT_KEEP, CLOSE_RAW},
    {"templatestyles", CLEAN_STRIP, EXTRACT_STRIP},
    {"textarea", CLEAN_KEEP, EXTRACT_DISCARD},
    {"th", CLEAN_STRIP, EXTRACT_DISCARD},
    {"time", CLEAN_STRIP},
    {"timeline", CLEAN_DROP, EXTRACT_DISCARD, CLOSE_RAW, OPAQUE_PAGE},
    {"tr", CLEAN_LINE, EXTRACT_DISCARD},
    {"tt", CLEAN_STRIP, EXTRACT_STRIP},
    {"u", CLEAN_STRIP, EXTRACT_STRIP},
    {"ul", CLEAN_LINE, EXTRACT_DISCARD},
    {"var", CLEAN_STRIP, EXTRACT_STRIP},
    {"wbr", CLEAN_STRIP},
    {"", CLEAN_KEEP}, /* any other */
};

size_t wiki_tag_number(struct wiki_span name)
{
    size_t low = 0, high = WIKI_TAGS;

    while (low < high) {
        size_t middle = (low + high) / 2, i = 0;
        const char *other = wiki_tags[middle].name;
        int order;

        while (i < name.size && other[i] && wiki_lower(name.data[i]) == other[i])
            i++;
        order = (i < name.size ? wiki_lower(name.data[i]) : 0) - other[i];
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return WIKI_TAGS;
}

struct wiki_tag wiki_tag(const char *at, const char *end)
{
    struct wiki_tag tag = {{NULL, 0}, 0, 0, 0, 0};
    const char *name = at + 1, *from, *stop;

    if (name < end && *name == '/') {
        tag.closing = 1;
        name++;
    }
    for (from = name;
         from < end && (wiki_is_letter(*from) || (from > name && wiki_is_digit(*from)));)
        from++;
    if (from == name || from == end || (*from != '>' && *from != '/' && !wiki_is_space(*from)))
        return tag;
    stop = memchr(from, '>', (size_t)(end - from));
    tag.endless = !stop;
    if (!stop)
        return tag;
    tag.name = wiki_span(name, (size_t)(from - name));
    tag.length = (size_t)(stop + 1 - at);
    tag.empty = !tag.closing && stop[-1] == '/';
    return tag;
}

const char *wiki_end_tag(const char *at, const char *end, const char *name, bool spaces)
{
    while ((at = wiki_find(at, end, "</"))) {
        const char *stop = at + 2 + strlen(name);

        at += 2;
        if (!wiki_begins(at, end, name))
            continue;
        while (spaces && stop < end && wiki_is_space(*stop))
            stop++;
        if (stop < end && *stop == '>')
            return stop + 1;
    }
    return NULL;
}

const char *wiki_skip_opaque(const char *at, const char *end, enum opaque_rule where,
                             unsigned char *missing)
{
    const char *from = at + 1, *stop;
    size_t number, left;

    if (wiki_begins(at, end, "<!--")) {
        stop = wiki_find(at + 4, end, "-->");
        return stop ? stop + 3 : end;
    }
    while (from < end && wiki_is_letter(*from))
        from++;
    number = wiki_tag_number(wiki_span(at + 1, (size_t)(from - at - 1)));
    if (!(wiki_tags[number].opaque & where) || missing[number])
        return NULL;
    left = (size_t)(end - from);
    stop = memchr(from, '>', left < TAG_LIMIT ? left : TAG_LIMIT);
    if (!stop || stop[-1] == '/')
        return NULL;
    stop = wiki_end_tag(stop, end, wiki_tags[number].name, false);
    missing[number] = !stop;
    return stop;
}

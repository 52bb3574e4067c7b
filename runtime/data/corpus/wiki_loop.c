/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_passes.h"
#include "wiki_tags.h"

#include <stdbool.h>

/* Compare titles: underscores equal spaces, and the case of the first letter is ignored. */
static bool is_name(const char *at, const char *end, struct wiki_span name)
{
    if ((size_t)(end - at) < name.size || name.size == 0)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char a = at[i] == '_' ? ' ' : at[i], b = name.data[i] == '_' ? ' ' : name.data[i];

        if (a != b && (i > 0 || wiki_lower(a) != wiki_lower(b)))
            return false;
    }
    return true;
}

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && (wiki_is_space(*at) || *at == '_'))
        at++;
    return at;
}

/* Skip a namespace and its colon, if present. */
static const char *skip_namespace(const char *at, const char *end, struct wiki_span name)
{
    const char *after = at;

    if (is_name(at, end, name))
        after = skip_spaces(at + name.size, end);
    return after > at && after < end && *after == ':' ? skip_spaces(after + 1, end) : at;
}

/* Does the text after two braces call this template, with or without the namespace? */
static int calls(const char *at, const char *end, struct wiki_span title)
{
    const char *colon = memchr(title.data, ':', title.size);

    at = skip_spaces(at, end);
    if (colon) {
        size_t prefix = (size_t)(colon - title.data);
        const char *after = skip_namespace(at, end, wiki_span(title.data, prefix));

        /* English names work in every wiki. */
        at = after > at ? after : skip_namespace(at, end, wiki_span("Template", 8));
        title = wiki_span(colon + 1, title.size - prefix - 1);
    }
    if (!is_name(at, end, title))
        return 0;
    at = skip_spaces(at + title.size, end);
    return at < end && (*at == '|' || (*at == '}' && at + 1 < end && at[1] == '}'));
}

int wiki_may_loop(struct wiki_span text, struct wiki_span title)
{
    const char *at = text.data, *end = text.data + text.size;

    while ((at = wiki_find(at, end, "{{"))) {
        /* Of more braces, the last two count. */
        for (at += 2; at < end && *at == '{'; at++)
            ;
        if (calls(at, end, title))
            return 1;
    }
    return 0;
}

int wiki_loops(struct wiki_span text, struct wiki_span title)
{
    const char *at = text.data, *end = text.data + text.size, *stop;
    /* With <onlyinclude>, nothing outside it is transcluded. */
    int only = wiki_find(at, end, "<onlyinclude>") != NULL, inside = !only;
    unsigned char missing[WIKI_TAGS] = {0};

    while ((at = wiki_scan(at, end, '<', '{')) < end) {
        if (*at == '{') {
            size_t braces = 0;

            for (; at < end && *at == '{'; at++)
                braces++;
            /* Of an odd number of braces, the last three are a parameter (wiki_expand.c). */
            if (inside && (braces == 2 || (braces > 2 && braces % 3 == 1)) && calls(at, end, title))
                return 1;
            continue;
        }
        stop = wiki_skip_opaque(at, end, OPAQUE_TEMPLATE, missing);
        if (only && end - at >= 13 && memcmp(at, "<onlyinclude>", 13) == 0)
            inside = 1;
        if (only && end - at >= 14 && memcmp(at, "</onlyinclude>", 14) == 0)
            inside = 0;
        at = stop ? stop : at + 1;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_site.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include "wiki_buffer.h"
#include "base/core/xmalloc.h"

static const struct {
    int key;
    const char *name;
} english[] = {{-2, "media"},    {-1, "special"},  {1, "talk"},           {2, "user"},
               {3, "user talk"}, {4, "project"},   {5, "project talk"},   {6, "file"},
               {6, "image"},     {7, "file talk"}, {8, "mediawiki"},      {10, "template"},
               {12, "help"},     {14, "category"}, {15, "category talk"}, {100, "portal"},
               {118, "draft"},   {828, "module"}};

/* Copy XML text, with entities decoded and underscores replaced by spaces. */
static void copy_text(const char *from, size_t size, char *to, size_t room)
{
    const char *end = from + size;
    size_t used = 0;

    while (from < end && used + 5 < room) {
        struct wiki_buffer point = {0};
        uint32_t value;
        size_t length = *from == '&' ? wiki_entity(from, end, &value) : 0;

        if (length == 0) {
            to[used++] = *from == '_' ? ' ' : *from;
            from++;
            continue;
        }
        wiki_put_point(&point, value);
        memcpy(to + used, point.data, point.size);
        used += point.size;
        from += length;
        wiki_buffer_clear(&point);
    }
    to[used] = '\0';
}

/* Find the content of the element whose tag begins with 'open' (without the closing bracket).
 * Returns its end, or NULL. */
static const char *content(const char *from, const char *end, const char *open,
                           struct wiki_span *text)
{
    const char *tag = wiki_find(from, end, open), *begin, *stop;

    if (!tag)
        return NULL;
    begin = memchr(tag, '>', (size_t)(end - tag));
    if (!begin)
        return NULL;
    stop = begin[-1] == '/' ? begin + 1 : memchr(begin, '<', (size_t)(end - begin));
    if (!stop)
        return NULL;
    *text =
        begin[-1] == '/' ? wiki_span(begin, 0) : wiki_span(begin + 1, (size_t)(stop - begin - 1));
    return stop;
}

/* Parse the key attribute of a namespace tag, which ends before 'end'. Returns 0 if it is not a
 * number. */
static int read_key(const char *tag, const char *end, int *number)
{
    const char *key = wiki_find(tag, end, "key=\"");
    char *stop;
    long value;

    if (!key)
        return 0;
    value = strtol(key + 5, &stop, 10);
    *number = (int)value;
    return stop > key + 5 && *stop == '"' && value > INT_MIN && value < INT_MAX;
}

/* Parse the namespaces. Returns a fault, or NULL. */
static const char *read_namespaces(struct wiki_site *site, const char *from, const char *end)
{
    const char *flaw = NULL, *tag;
    struct wiki_span name;

    while (site->count < sizeof(site->names) / sizeof(site->names[0]) &&
           (tag = wiki_find(from, end, "<namespace "))) {
        int key;

        from = content(tag, end, "<namespace ", &name);
        if (!from || !read_key(tag, from, &key)) {
            flaw = "<siteinfo> has a namespace without a number; its name is ignored";
            if (!from)
                break;
        } else if (name.size > 0 && name.size < sizeof(site->names[0].name)) {
            copy_text(name.data, name.size, site->names[site->count].name,
                      sizeof(site->names[0].name));
            site->names[site->count++].key = key;
        }
    }
    if (!flaw && site->count == 0)
        flaw = "<siteinfo> names no namespaces; the English names are used";
    return flaw;
}

struct wiki_site *wiki_site_parse(const char *head, size_t size)
{
    struct wiki_site *site = xcalloc(1, sizeof(*site));
    const char *end = head + size, *begin = wiki_find(head, end, "<siteinfo"), *slash, *flaw;
    struct wiki_span text;

    copy_text("Wikipedia", 9, site->name, sizeof(site->name));
    memcpy(site->base, "https://en.wikipedia.org/wiki", 30);
    if (!begin || !wiki_find(begin, end, "</siteinfo>")) {
        site->flaw = "no complete <siteinfo>; English namespace names are used";
        return site;
    }
    if (content(begin, end, "<sitename", &text) && text.size < sizeof(site->name))
        copy_text(text.data, text.size, site->name, sizeof(site->name));
    if (content(begin, end, "<base", &text) && text.size < sizeof(site->base) && text.size > 8) {
        memcpy(site->base, text.data, text.size);
        site->base[text.size] = '\0';
        slash = strrchr(site->base, '/');
        if (slash && slash > site->base + 8)
            site->base[slash - site->base] = '\0';
    } else {
        site->flaw = "<siteinfo> has no <base>; en.wikipedia.org is used for the URLs";
    }
    flaw = read_namespaces(site, begin, end);
    if (flaw)
        site->flaw = flaw;
    return site;
}

/* Compare, ignoring the case of ASCII letters and treating underscores as spaces. */
static bool same_name(struct wiki_span prefix, const char *name)
{
    for (size_t i = 0; i < prefix.size; i++) {
        char c = prefix.data[i] == '_' ? ' ' : prefix.data[i];

        if (name[i] == '\0' || wiki_lower(c) != wiki_lower(name[i]))
            return false;
    }
    return name[prefix.size] == '\0';
}

int wiki_site_namespace(const struct wiki_site *site, struct wiki_span prefix)
{
    prefix = wiki_trim(prefix);
    if (prefix.size == 0 || prefix.size > 90)
        return WIKI_NS_NONE;
    for (size_t i = 0; site && i < site->count; i++)
        if (same_name(prefix, site->names[i].name))
            return site->names[i].key;
    for (size_t i = 0; i < sizeof(english) / sizeof(english[0]); i++)
        if (same_name(prefix, english[i].name))
            return english[i].key;
    return WIKI_NS_NONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "mediawiki.h"

#include <stdlib.h>
#include "data/tokenizer/unicode.h"
#include "wiki_buffer.h"

static const char *find_tag(const char *at, const char *end, const char *tag, size_t length)
{
    while ((at = wiki_find(at, end, tag))) {
        if (at + length == end || at[length] == '>' || wiki_is_space(at[length]))
            return at;
        at++;
    }
    return NULL;
}

const char *mediawiki_begin(const char *at, const char *end)
{
    return find_tag(at, end, "<page", 5);
}

const char *mediawiki_end(const char *at, const char *end)
{
    at = wiki_find(at, end, "</page>");
    return at ? at + 7 : NULL;
}

int mediawiki_is_dump(const char *data, size_t size)
{
    struct wiki_span text = wiki_span(data, size < 4096 ? size : 4096);
    const char *end, *root;

    if (text.size >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0) {
        text.data += 3;
        text.size -= 3;
    }
    text = wiki_trim(text);
    end = text.data + text.size;
    if (text.size > 5 && memcmp(text.data, "<?xml", 5) == 0) {
        root = wiki_find(text.data, end, "?>");
        text = wiki_trim(wiki_span(root ? root + 2 : end, root ? (size_t)(end - root - 2) : 0));
    }
    return text.size >= 10 && memcmp(text.data, "<mediawiki", 10) == 0;
}

size_t mediawiki_whole(const char *data, size_t size)
{
    /* Search from the end: a page of many megabytes is searched again each time its size has
     * doubled. */
    const char *at = data + size;

    while ((at = memrchr(data, '<', (size_t)(at - data)))) {
        size_t left = (size_t)(data + size - at);

        if (left >= 7 && memcmp(at, "</page>", 7) == 0)
            return (size_t)(at - data) + 7;
        if (left >= 6 && memcmp(at, "<page", 5) == 0 && (at[5] == '>' || wiki_is_space(at[5])))
            return (size_t)(at - data);
    }
    return 0;
}

struct cursor {
    const char *at, *end;
    int revision, contributor; /* inside an element */
    int texts;
};

static int64_t number(struct wiki_span text)
{
    int64_t value = 0;
    size_t i = 0;

    text = wiki_trim(text);
    for (i = text.size > 0 && text.data[0] == '-'; i < text.size && i < 18; i++)
        if (text.data[i] >= '0' && text.data[i] <= '9')
            value = value * 10 + (text.data[i] - '0');
        else
            return -1;
    return text.size > 0 && text.data[0] == '-' ? -value : value;
}

static void take_id(struct cursor *cursor, struct wiki_page *page, struct wiki_span text)
{
    if (cursor->contributor)
        return;
    if (cursor->revision)
        page->revision = number(text);
    else if (page->id < 0)
        page->id = number(text);
}

/* An element without child elements, and its content. */
static void take_element(struct cursor *cursor, struct wiki_page *page, struct wiki_span name,
                         struct wiki_span text)
{
    if (wiki_is(name, "title")) {
        page->title = text;
    } else if (wiki_is(name, "ns")) {
        page->ns = (int)number(text);
    } else if (wiki_is(name, "id")) {
        take_id(cursor, page, text);
    } else if (wiki_is(name, "redirect")) {
        page->redirect = 1;
    } else if (wiki_is(name, "model") && !cursor->contributor) {
        page->wikitext = wiki_is(wiki_trim(text), "wikitext");
    } else if (wiki_is(name, "text")) {
        page->text = text;
        cursor->texts++;
    }
}

static enum document_fault take_tag(struct cursor *cursor, struct wiki_page *page)
{
    const char *name = cursor->at + 1, *from, *stop, *close;
    int closing = name < cursor->end && *name == '/';
    struct wiki_span word;

    name += closing;
    for (from = name;
         from < cursor->end && ((wiki_lower(*from) >= 'a' && wiki_lower(*from) <= 'z') ||
                                (*from >= '0' && *from <= '9'));)
        from++;
    stop = memchr(from, '>', (size_t)(cursor->end - from));
    if (from == name || !stop || memchr(from, '<', (size_t)(stop - from)))
        return FAULT_XML;
    word = wiki_span(name, (size_t)(from - name));
    cursor->at = stop + 1;
    if (wiki_is(word, "revision"))
        cursor->revision = !closing;
    if (wiki_is(word, "contributor"))
        cursor->contributor = !closing && stop[-1] != '/';
    if (closing)
        return FAULT_NONE;
    if (stop[-1] == '/') {
        take_element(cursor, page, word, wiki_span(stop, 0));
        return FAULT_NONE;
    }
    close = memchr(cursor->at, '<', (size_t)(cursor->end - cursor->at));
    if (!close)
        return FAULT_CUT;
    /* Descend into an element with child elements. */
    if (close + 2 + word.size >= cursor->end || close[1] != '/') {
        return wiki_is(word, "text") || wiki_is(word, "title") ? FAULT_XML : FAULT_NONE;
    }
    if (memcmp(close + 2, word.data, word.size) != 0)
        return FAULT_XML;
    take_element(cursor, page, word, wiki_span(cursor->at, (size_t)(close - cursor->at)));
    cursor->at = close;
    return FAULT_NONE;
}

enum document_fault mediawiki_page(const char *data, size_t size, struct wiki_page *page)
{
    struct cursor cursor = {data + 5, data + size, 0, 0, 0};
    enum document_fault fault = FAULT_NONE;
    int closed = size >= 7 && memcmp(data + size - 7, "</page>", 7) == 0;

    memset(page, 0, sizeof(*page));
    page->id = page->revision = -1;
    page->wikitext = 1;
    while (fault == FAULT_NONE && cursor.at < cursor.end &&
           (cursor.at = memchr(cursor.at, '<', (size_t)(cursor.end - cursor.at))))
        fault = take_tag(&cursor, page);
    if (!closed)
        return FAULT_CUT;
    if (fault == FAULT_NONE && (page->title.size == 0 || cursor.texts == 0))
        return FAULT_XML;
    return fault == FAULT_CUT ? FAULT_XML : fault;
}

/* The character of one of XML's five entity names at 'at', or 0. */
static inline char xml_name(const char *at, size_t left, size_t *length)
{
    static const struct {
        char first, character;
        unsigned char length;
        const char *name;
    } names[] = {{'l', '<', 4, "&lt;"},
                 {'g', '>', 4, "&gt;"},
                 {'q', '"', 6, "&quot;"},
                 {'a', '&', 5, "&amp;"},
                 {'a', '\'', 6, "&apos;"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (left >= names[i].length && at[1] == names[i].first &&
            memcmp(at, names[i].name, names[i].length) == 0) {
            *length = names[i].length;
            return names[i].character;
        }
    return '\0';
}

static const char *put_entity(const char *at, const char *end, struct wiki_buffer *out)
{
    size_t length = 0;
    char character = xml_name(at, (size_t)(end - at), &length);
    uint32_t point;

    if (character) {
        wiki_put_char(out, character);
    } else if (end - at > 1 && at[1] == '#' && (length = wiki_entity(at, end, &point)) > 0) {
        wiki_put_point(out, point);
    } else {
        wiki_put_char(out, '&');
        length = 1;
    }
    return at + length;
}

int mediawiki_unescape(struct wiki_span text, struct wiki_buffer *out)
{
    const char *at = text.size > 0 ? text.data : "", *end = at + text.size;

    if (!utf8_valid((const uint8_t *)at, text.size))
        return -1;
    while (at < end) {
        const char *stop = wiki_scan(at, end, '&', '&');

        if (end - at >= 32)
            wiki_copy(out, at, (size_t)(stop - at));
        else
            wiki_put(out, at, (size_t)(stop - at));
        at = stop < end ? put_entity(stop, end, out) : end;
    }
    return 0;
}

size_t mediawiki_escaped(struct wiki_span text, size_t place)
{
    const char *at = text.data, *end = at + text.size;
    struct wiki_buffer one = {0};

    while (at < end && place > 0) {
        const char *stop = wiki_scan(at, end, '&', '&');
        size_t plain = (size_t)(stop - at);

        if (plain >= place || stop == end) {
            at += plain < place ? plain : place;
            break;
        }
        one.size = 0;
        at = put_entity(stop, end, &one);
        place -= plain;
        place -= one.size < place ? one.size : place;
    }
    wiki_buffer_clear(&one);
    return (size_t)(at - text.data);
}

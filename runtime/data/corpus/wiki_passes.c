/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_passes.h"
#include "base/core/list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void wiki_cut_add(struct wiki_cuts *cuts, size_t begin, size_t end, int kind, unsigned what)
{
    *list_add(cuts) = (struct wiki_cut){begin, end, kind, what};
}

static int earlier_first(const void *a, const void *b)
{
    const struct wiki_cut *left = a, *right = b;

    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return left->end > right->end ? -1 : left->end < right->end;
}

static void put_instead(struct wiki_buffer *out, const struct wiki_cut *cut)
{
    char text[32];

    if (cut->kind == WIKI_CUT_SPACE || cut->kind == WIKI_CUT_BREAK) {
        wiki_put_char(out, cut->kind == WIKI_CUT_SPACE ? ' ' : '\n');
    } else if (cut->kind == WIKI_CUT_FORMULA || cut->kind == WIKI_CUT_CODE) {
        snprintf(text, sizeof(text), "%s_%u", cut->kind == WIKI_CUT_FORMULA ? "formula" : "codice",
                 cut->what);
        wiki_put_text(out, text);
    }
}

void wiki_cut_apply(struct wiki_cuts *cuts, const struct wiki_buffer *in, struct wiki_buffer *out)
{
    size_t at = 0;

    for (size_t i = 1; i < cuts->count; i++)
        if (cuts->items[i].begin < cuts->items[i - 1].begin) {
            qsort(cuts->items, cuts->count, sizeof(*cuts->items), earlier_first);
            break;
        }
    for (size_t i = 0; i < cuts->count; i++) {
        const struct wiki_cut *cut = &cuts->items[i];

        if (cut->begin >= at) {
            wiki_copy(out, in->data + at, cut->begin - at);
            put_instead(out, cut);
        }
        if (cut->end > at)
            at = cut->end;
    }
    wiki_put(out, in->data + at, in->size - at);
}

void wiki_cut_close(struct wiki_cuts *cuts, struct wiki_cuts *open, size_t end)
{
    size_t begin = open->items[--open->count].begin;

    while (cuts->count > 0 && cuts->items[cuts->count - 1].begin > begin)
        cuts->count--;
    wiki_cut_add(cuts, begin, end, WIKI_CUT_DROP, 0);
}

/* Find the next {| or |} in [at, end), or 'end'. */
static const char *next_mark(const char *at, const char *end)
{
    for (; (at = wiki_scan(at, end, '{', '|')) + 1 < end; at++)
        if ((at[0] == '{' && at[1] == '|') || (at[0] == '|' && at[1] == '}'))
            return at;
    return end;
}

void wiki_drop_tables(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size, *kept = at, *start = NULL, *closed = NULL;
    size_t depth = 0;

    while ((at = next_mark(at, end)) < end) {
        if (at[0] == '{') {
            if (depth++ == 0) {
                start = at;
                closed = NULL;
            }
        } else if (depth > 0) {
            closed = at + 2;
            if (--depth == 0) {
                wiki_copy(out, kept, (size_t)(start - kept));
                kept = closed;
            }
        }
        at += 2;
    }
    if (depth > 0 && closed) {
        wiki_copy(out, kept, (size_t)(start - kept));
        kept = closed;
    }
    wiki_copy(out, kept, (size_t)(end - kept));
}

/* --- External links --------------------------------------------------------------------------- */

/* Most brackets are internal links: a colon near the start is rare. */
static inline bool may_be_protocol(const char *at, const char *end)
{
    size_t left = (size_t)(end - at);

    return left > 2 && *at != '[' && (*at == '/' || memchr(at, ':', left < 10 ? left : 10) != NULL);
}

static size_t protocol(const char *at, const char *end)
{
    static const char *const protocols[] = {
        "http://",      "https://", "//",        "ftp://", "ftps://", "mailto:", "news:",
        "irc://",       "ircs://",  "gopher://", "sip:",   "sips:",   "tel:",    "sms:",
        "xmpp:",        "magnet:",  "ssh://",    "git://", "svn://",  "nntp://", "telnet://",
        "worldwind://", "bitcoin:", "urn:",      "geo:",   "sftp://", "mms://",  "matrix:"};

    if (!may_be_protocol(at, end))
        return 0;
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        size_t length = strlen(protocols[i]);

        if (wiki_begins(at, end, protocols[i]) && at + length < end)
            return length;
    }
    return 0;
}

static bool ends_address(char c)
{
    return (unsigned char)c <= ' ' || c == '[' || c == ']' || c == '<' || c == '>' || c == '"' ||
           c == 0x7f;
}

/* Is the label the address of a picture? */
static bool is_picture(struct wiki_span label)
{
    static const char *const endings[] = {".gif", ".png", ".jpg", ".jpeg"};

    if (label.size < 12 ||
        (memcmp(label.data, "http://", 7) != 0 && memcmp(label.data, "https://", 8) != 0))
        return false;
    for (size_t i = 0; i < label.size; i++)
        if (ends_address(label.data[i]))
            return false;
    for (size_t i = 0; i < 4; i++) {
        size_t length = strlen(endings[i]);

        if (wiki_is(wiki_span(label.data + label.size - length, length), endings[i]))
            return true;
    }
    return false;
}

void wiki_external_links(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size, *kept = at, *hopeless = at;

    while ((at = wiki_scan(at, end, '[', '[')) < end) {
        size_t head = at >= hopeless ? protocol(at + 1, end) : 0;
        const char *url = at + 1 + head, *label, *stop;

        if (head == 0 || ends_address(*url)) {
            at++;
            continue;
        }
        while (url < end && !ends_address(*url))
            url++;
        for (label = url; label < end && (*label == ' ' || *label == '\t');)
            label++;
        for (stop = label; stop < end && *stop != ']' && *stop != '\n';)
            stop++;
        if (stop == end || *stop != ']') {
            hopeless = stop; /* no bracket closes before it */
            at++;
            continue;
        }
        wiki_copy(out, kept, (size_t)(at - kept));
        if (!is_picture(wiki_span(label, (size_t)(stop - label))))
            wiki_copy(out, label, (size_t)(stop - label));
        kept = at = stop + 1;
    }
    wiki_copy(out, kept, (size_t)(end - kept));
}

size_t wiki_switch(const char *at, const char *end)
{
    static const char words[] =
        " NOTOC FORCETOC TOC NEWSECTIONLINK NONEWSECTIONLINK NOGALLERY HIDDENCAT NOCONTENTCONVERT"
        " NOCC NOTITLECONVERT NOTC START END INDEX NOINDEX STATICREDIRECT DISAMBIG NOEDITSECTION ";
    const char *from = at + 2, *stop = from;
    char word[20];

    if (end - at < 7 || at[0] != '_' || at[1] != '_')
        return 0;
    while (stop < end && *stop >= 'A' && *stop <= 'Z')
        stop++;
    if (end - stop < 2 || stop[0] != '_' || stop[1] != '_' || stop - from > 16)
        return 0;
    snprintf(word, sizeof(word), " %.*s ", (int)(stop - from), from);
    return strstr(words, word) ? (size_t)(stop + 2 - at) : 0;
}

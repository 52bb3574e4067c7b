/* SPDX-License-Identifier: Apache-2.0 */
/* Braces and brackets are matched with one stack, like MediaWiki's preprocessor; the content of an
 * extension tag is matched separately. Tables have their own stack, because a template may close
 * them. Everything is visited once. If a page can be read in two ways, the one that closes more
 * counts: reports must not be false. */
#include "config.h"
#include "wiki_looks.h"
#include "wiki_tags.h"

#include <stdbool.h>
#include <stdio.h>

/* Open tags, braces and brackets: items of 'look->stack' with their offset in 'begin'. */
enum open_kind {
    OPEN_TAG,      /* 'what': its index; 'end': 1 + index of the tag around it, or 0 */
    OPEN_TEMPLATE, /* 'end': number of braces */
    OPEN_LINK,     /* 'end': number of brackets; 'what': nested open links, including this one */
};

struct scan {
    const char *begin, *at, *end;
    struct wiki_cuts *open, *tables;
    size_t tag;               /* 1 + index of the innermost open tag, or 0 */
    size_t pipes;             /* tables opened by `{{{!}}` and not closed by `{{!}}}` */
    size_t counts[WIKI_TAGS]; /* number of open tags of each kind */
    struct wiki_unclosed found;
};

static void find(struct scan *scan, enum document_fault fault, size_t place, unsigned tag)
{
    scan->found = (struct wiki_unclosed){fault, place, tag};
}

/* The innermost open item is unclosed. */
static void find_open(struct scan *scan)
{
    static const enum document_fault faults[] = {MARKUP_TAG, MARKUP_TEMPLATE, MARKUP_LINK};
    const struct wiki_cut *open = &scan->open->items[scan->open->count - 1];

    find(scan, faults[open->kind], open->begin, open->kind == OPEN_TAG ? open->what : 0);
}

static size_t place(const struct scan *scan)
{
    return (size_t)(scan->at - scan->begin);
}

/* The innermost open item inside the innermost tag, or NULL. */
static struct wiki_cut *innermost(const struct scan *scan)
{
    return scan->open->count > scan->tag ? &scan->open->items[scan->open->count - 1] : NULL;
}

/* --- Tables ----------------------------------------------------------------------------------- */

static int begins_line(const char *begin, const char *at)
{
    while (at > begin && (at[-1] == ' ' || at[-1] == ':' || at[-1] == '\t'))
        at--;
    return at == begin || at[-1] == '\n';
}

/* Does the template at 'at' have a name like one that closes a table? {{s-end}}, {{End box}},
 * {{Jctbtm}}, {{!)}}. */
static bool may_close_table(const char *at, const char *end)
{
    static const char *const words[] = {
        "end",    "bottom", "btm",  "foot",   "footer", "close", "ende",  "fin",   "fine",
        "fim",    "final",  "slut", "konec",  "koniec", "loppu", "einde", "конец", "край",
        "кінець", "Конец",  "Край", "Кінець", "終",     "终",    "!)"};
    struct wiki_span name = wiki_span(at, 0);

    while (name.size < 100 && at + name.size < end && at[name.size] != '|' && at[name.size] != '}')
        name.size++;
    name = wiki_trim(name);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t length = strlen(words[i]);

        if (name.size >= length &&
            wiki_is(wiki_span(name.data + name.size - length, length), words[i]))
            return true;
    }
    return name.size > 3 && wiki_is(wiki_span(name.data, 3), "end");
}

/* The last open table is unclosed, unless a template closes it. */
static void find_table(struct scan *scan)
{
    const struct wiki_cut *table = &scan->tables->items[scan->tables->count - 1];
    const char *at = scan->begin + table->begin;

    while ((at = wiki_find(at, scan->end, "{{"))) {
        at += 2;
        if (may_close_table(at, scan->end))
            return;
    }
    find(scan, table->what == WIKI_TAGS ? MARKUP_TABLE : MARKUP_TAG, table->begin, table->what);
}

static void close_table(struct scan *scan)
{
    if (scan->tables->count > 0)
        scan->tables->count--;
}

/* --- Braces and brackets ---------------------------------------------------------------------- */

/* The number of equal characters from 'at' on. */
static size_t run_length(const struct scan *scan)
{
    const char *at = scan->at;

    while (at < scan->end && *at == *scan->at)
        at++;
    return (size_t)(at - scan->at);
}

/* In an argument of a call, a table begins with `{{{!}}`, which becomes `{|`. */
static bool begins_with_pipe(const struct scan *scan, size_t count)
{
    return count == 3 && scan->end - scan->at > 6 && memcmp(scan->at + 3, "!}}", 3) == 0 &&
           scan->at[6] != '}';
}

static void take_open_braces(struct scan *scan)
{
    size_t count = run_length(scan);

    scan->pipes += (size_t)begins_with_pipe(scan, count);
    if (count > 1)
        wiki_cut_add(scan->open, place(scan), count, OPEN_TEMPLATE, 0);
    else if (scan->at + 1 < scan->end && scan->at[1] == '|' && begins_line(scan->begin, scan->at))
        wiki_cut_add(scan->tables, place(scan), 0, 0, WIKI_TAGS);
    scan->at += count;
}

static void take_open_brackets(struct scan *scan)
{
    const struct wiki_cut *around = innermost(scan);
    size_t count = run_length(scan);

    if (count > 1)
        wiki_cut_add(scan->open, place(scan), count, OPEN_LINK,
                     1 + (around && around->kind == OPEN_LINK ? around->what : 0));
    scan->at += count;
}

/* A link that is open inside a call that closes is unclosed. */
static void find_link_in_call(struct scan *scan, const struct wiki_cut *link)
{
    if (scan->open->count > scan->tag + link->what)
        find_open(scan);
}

/* Do the braces at 'at' end a table? `|}` does, but `|}}` ends a call whose last argument is empty.
 * `|}}}` at the start of a line does both. */
static bool ends_table(const struct scan *scan, size_t count)
{
    const struct wiki_cut *open = innermost(scan);

    if (scan->at == scan->begin || scan->at[-1] != '|' || scan->tables->count == 0)
        return false;
    if (count == 1 || !open || open->kind != OPEN_TEMPLATE)
        return true;
    return count == 3 && open->end == 2 && begins_line(scan->begin, scan->at - 1);
}

/* `{{!}}}`, which becomes `|}`, ends a table. */
static void close_with_pipe(struct scan *scan)
{
    if (scan->pipes > 0)
        scan->pipes--;
    else
        close_table(scan);
}

static void take_close_braces(struct scan *scan)
{
    const char *from = scan->at;
    size_t count = run_length(scan), left = count;
    struct wiki_cut *open;

    if (ends_table(scan, count)) {
        close_table(scan);
        left--;
    }
    scan->at += count;
    while (left > 1 && (open = innermost(scan))) {
        size_t most = open->end < 3 ? open->end : 3, closed = left < most ? left : most;

        if (open->kind != OPEN_TEMPLATE) {
            find_link_in_call(scan, open);
            return;
        }
        if (left == 3 && open->end == 2 && from - scan->begin == (ptrdiff_t)open->begin + 3 &&
            from[-1] == '!')
            close_with_pipe(scan);
        left -= closed;
        open->end -= closed;
        if (open->end < 2)
            scan->open->count--;
    }
}

static void take_close_brackets(struct scan *scan)
{
    size_t count = run_length(scan);
    struct wiki_cut *open;

    scan->at += count;
    for (; count > 1 && (open = innermost(scan)) && open->kind == OPEN_LINK; count -= 2) {
        open->end -= 2;
        if (open->end < 2)
            scan->open->count--;
    }
}

/* --- Tags ------------------------------------------------------------------------------------- */

static void open_tag(struct scan *scan, unsigned number, size_t from)
{
    const char *stop;

    if (wiki_tags[number].close == CLOSE_TABLE) {
        wiki_cut_add(scan->tables, from, 0, 0, number);
    } else if (wiki_tags[number].close == CLOSE_FRAME) {
        wiki_cut_add(scan->open, from, scan->tag, OPEN_TAG, number);
        scan->tag = scan->open->count;
        scan->counts[number]++;
    } else {
        stop = wiki_end_tag(scan->at, scan->end, wiki_tags[number].name, true);
        if (!stop && wiki_tags[number].close == CLOSE_RAW)
            find(scan, MARKUP_TAG, from, number);
        scan->at = stop ? stop : scan->end;
        /* Open items around it may be closed in the part that is not read. */
        if (!stop)
            scan->open->count = scan->tables->count = 0;
    }
}

static void close_tag(struct scan *scan, unsigned number)
{
    const struct wiki_cut *open;

    if (wiki_tags[number].close == CLOSE_TABLE)
        close_table(scan);
    if (scan->counts[number] == 0)
        return;
    open = &scan->open->items[scan->open->count - 1];
    if (open->kind != OPEN_TAG || open->what != number) {
        find_open(scan);
        return;
    }
    scan->tag = open->end;
    scan->counts[number]--;
    scan->open->count--;
}

static void take_comment(struct scan *scan)
{
    const char *stop = wiki_find(scan->at + 4, scan->end, "-->");

    if (!stop)
        find(scan, MARKUP_COMMENT, place(scan), 0);
    scan->at = stop ? stop + 3 : scan->end;
}

static void take_angle(struct scan *scan)
{
    size_t from = place(scan);
    int closing = scan->end - scan->at > 1 && scan->at[1] == '/';
    const char *name = scan->at + 1 + closing, *after = name, *stop;
    size_t number;

    if (wiki_begins(scan->at, scan->end, "<!--")) {
        take_comment(scan);
        return;
    }
    scan->at++;
    while (after < scan->end && wiki_is_letter(*after))
        after++;
    if (after == scan->end || (*after != '>' && *after != '/' && !wiki_is_space(*after)))
        return;
    number = wiki_tag_number(wiki_span(name, (size_t)(after - name)));
    if (wiki_tags[number].close == CLOSE_ANY)
        return;
    if (closing) {
        while (after < scan->end && wiki_is_space(*after))
            after++;
        if (after < scan->end && *after == '>')
            close_tag(scan, (unsigned)number);
        return;
    }
    stop = memchr(after, '>', (size_t)(scan->end - after));
    scan->at = stop ? stop + 1 : after;
    if (!stop)
        find(scan, MARKUP_TAG, from, (unsigned)number);
    else if (stop[-1] != '/')
        open_tag(scan, (unsigned)number, from);
}

/* --- The page --------------------------------------------------------------------------------- */

/* Brackets and braces differ by one bit. */
static inline wiki_matches marks(wiki_bytes bytes)
{
    wiki_bytes upper = bytes | 0x20;

    return (upper == '{') | (upper == '}') | (bytes == '<');
}

struct wiki_unclosed wiki_unclosed(struct wiki_look *look, const struct wiki_buffer *text)
{
    struct scan scan = {.begin = text->data,
                        .at = text->data,
                        .end = text->data + text->size,
                        .open = &look->stack,
                        .tables = &look->cuts};

    look->stack.count = look->cuts.count = 0;
    while (scan.found.fault == FAULT_NONE &&
           (scan.at = wiki_find_mark(scan.at, scan.end, marks)) < scan.end) {
        if (*scan.at == '[')
            take_open_brackets(&scan);
        else if (*scan.at == ']')
            take_close_brackets(&scan);
        else if (*scan.at == '{')
            take_open_braces(&scan);
        else if (*scan.at == '}')
            take_close_braces(&scan);
        else
            take_angle(&scan);
    }
    if (scan.found.fault == FAULT_NONE && scan.open->count > 0)
        find_open(&scan);
    if (scan.found.fault == FAULT_NONE && scan.tables->count > 0)
        find_table(&scan);
    return scan.found;
}

void wiki_unclosed_text(const struct wiki_unclosed *unclosed, char *text, size_t size)
{
    if (unclosed->fault == MARKUP_TAG)
        snprintf(text, size, "<%s> without </%s>", wiki_tags[unclosed->tag].name,
                 wiki_tags[unclosed->tag].name);
    else
        snprintf(text, size, "%s", document_fault_text(unclosed->fault));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_inline.h"
#include "wiki_expand.h"
#include "wiki_site.h"
#include "wiki_tags.h"

#include <stdbool.h>

/* Limit on links that are open at a time; deeper ones are dropped. */
enum { LINK_DEPTH = 40 };

struct link {
    size_t start; /* offset in the output */
    size_t pipe;  /* the first pipe, or 0 */
};

struct inliner {
    struct wiki_look *look;
    const struct wiki_page_info *page;
    struct wiki_buffer *out;
    const char *at, *end;
    const char *hopeless;          /* no ']' before this position */
    unsigned char gone[WIKI_TAGS]; /* no end tag follows */
    unsigned char flat[WIKI_TAGS]; /* unbalanced tags: the first end tag closes */
    int endless;                   /* no '>' follows */
    struct link links[LINK_DEPTH];
    size_t depth, deeper;
    const char *external; /* the bracket that closes an external link */
    size_t dropped_from;  /* the output at the first link that is nested too deeply */
};

void wiki_put_raw(struct wiki_buffer *out, struct wiki_span text)
{
    if (out->size == 0 || out->data[out->size - 1] == '\n' ||
        out->data[out->size - 1] == WIKI_BREAK)
        wiki_put_char(out, WIKI_RAW_LINE);
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (c == ' ')
            wiki_put_char(out, WIKI_RAW_SPACE);
        else if (c == '\t')
            wiki_put_text(out, "\x02\x02\x02\x02");
        else if (c == '\'')
            wiki_put_text(out, "&#39;");
        else if (c == '[' || c == ']')
            wiki_put_text(out, c == '[' ? "&#91;" : "&#93;");
        else if (c == '(' || c == ')')
            wiki_put_text(out, c == '(' ? "&#40;" : "&#41;");
        else
            wiki_put_char(out, c);
        if (c == '\n' && i + 1 < text.size)
            wiki_put_char(out, WIKI_RAW_LINE);
    }
}

/* --- Tags ------------------------------------------------------------------------------------- */

/* Find the end tag of the element that begins at 'from', which may contain elements of the same
 * name. Returns its position and length, or NULL. */
static const char *find_close(struct inliner *inliner, const char *from, size_t number,
                              size_t *length)
{
    const char *name = wiki_tags[number].name, *at = from, *first = NULL;
    size_t size = strlen(name), depth = 1;
    /* A <ref> cannot be nested, even if an author forgot to close one. */
    int nests =
        wiki_tags[number].clean == CLEAN_DROP && !inliner->flat[number] && strcmp(name, "ref") != 0;

    while (!inliner->gone[number] && (at = memchr(at, '<', (size_t)(inliner->end - at)))) {
        int closing = at + 1 < inliner->end && at[1] == '/';
        const char *word = at + 1 + closing, *stop;

        if (!wiki_begins(word, inliner->end, name) || word + size == inliner->end ||
            wiki_is_letter(word[size])) {
            at++;
            continue;
        }
        stop = memchr(word, '>', (size_t)(inliner->end - word));
        if (!stop)
            break;
        if (closing && !first) {
            first = at;
            *length = (size_t)(stop + 1 - at);
        }
        if (closing && --depth == 0) {
            *length = (size_t)(stop + 1 - at);
            return at;
        }
        depth += !closing && nests && stop[-1] != '/';
        at = stop + 1;
    }
    inliner->flat[number] = 1;
    if (!first)
        inliner->gone[number] = 1;
    return first;
}

static void put_math(struct inliner *inliner, struct wiki_span formula)
{
    formula = wiki_trim(formula);
    if (inliner->look->options->math == WIKI_MATH_DROP || formula.size == 0) {
        wiki_put_char(inliner->out, WIKI_DROPPED);
        return;
    }
    wiki_put_char(inliner->out, '$');
    for (size_t i = 0; i < formula.size; i++)
        if (formula.data[i] == '\n')
            wiki_put_char(inliner->out, WIKI_RAW_SPACE);
        else
            wiki_put_raw(inliner->out, wiki_span(formula.data + i, 1));
    wiki_put_char(inliner->out, '$');
}

/* Handle an element whose content bypasses this pass. Returns where to continue. */
static const char *take_element(struct inliner *inliner, const struct wiki_tag *tag, size_t number)
{
    const char *from = inliner->at + tag->length, *close;
    struct wiki_span content;
    size_t length;

    if (tag->closing || tag->empty)
        return from;
    close = find_close(inliner, from, number, &length);
    if (!close) /* unclosed: remove the tag only */
        return from;
    content = wiki_span(from, (size_t)(close - from));
    if (wiki_tags[number].clean == CLEAN_RAW) {
        if (content.size > 0 && content.data[0] == '\n') {
            content.data++;
            content.size--;
        }
        wiki_put_raw(inliner->out, content);
    } else if (wiki_tags[number].clean == CLEAN_MATH) {
        put_math(inliner, content);
    } else if (wiki_tags[number].clean == CLEAN_RUBY) {
        wiki_put_text(inliner->out, "(");
        wiki_put(inliner->out, content.data, content.size);
        wiki_put_text(inliner->out, ")");
    } else {
        wiki_put_char(inliner->out, WIKI_DROPPED);
    }
    return close + length;
}

static void take_tag(struct inliner *inliner)
{
    struct wiki_tag tag = {0};
    const char *after;
    size_t number = WIKI_TAGS;

    if (!inliner->endless)
        tag = wiki_tag(inliner->at, inliner->end);
    inliner->endless |= tag.endless;
    if (tag.length > 0)
        number = wiki_tag_number(tag.name);
    switch (wiki_tags[number].clean) {
    case CLEAN_KEEP:
        wiki_put_char(inliner->out, *inliner->at++);
        break;
    case CLEAN_LINE:
        wiki_put_char(inliner->out, WIKI_BREAK);
        inliner->at += tag.length;
        break;
    case CLEAN_ITEM:
        wiki_put_char(inliner->out, WIKI_BREAK);
        wiki_put_text(inliner->out, tag.closing ? "" : "* ");
        inliner->at += tag.length;
        break;
    case CLEAN_SUB:
    case CLEAN_SUP:
        inliner->at += tag.length;
        after = tag.closing || tag.empty
                    ? NULL
                    : wiki_script(inliner->at, inliner->end, wiki_tags[number].clean == CLEAN_SUP,
                                  inliner->out);
        inliner->at = after ? after : inliner->at;
        break;
    case CLEAN_STRIP:
        inliner->at += tag.length;
        break;
    default:
        inliner->at = take_element(inliner, &tag, number);
    }
}

/* --- Links ------------------------------------------------------------------------------------ */

static bool is_language(struct wiki_span prefix)
{
    size_t first = 0;

    if (wiki_is(prefix, "simple"))
        return true;
    for (size_t i = 0; i < prefix.size; i++) {
        if (prefix.data[i] == '-' && i > 0)
            continue;
        if (prefix.data[i] < 'a' || prefix.data[i] > 'z')
            return false;
        first += !memchr(prefix.data, '-', i);
    }
    return first >= 2 && first <= 3;
}

/* [[Foo (bar)|]]: the text before the parenthesis or comma, without the namespace. */
static struct wiki_span pipe_trick(struct wiki_span target)
{
    const char *end = target.data + target.size, *mark = memchr(target.data, '(', target.size);

    if (!mark)
        mark = wiki_find(target.data, end, ", ");
    if (!mark)
        mark = memchr(target.data, '#', target.size);
    return wiki_trimmed(target.data, mark ? mark : end);
}

/* Write the visible part of a link; an empty one is dropped. */
static struct wiki_span shown(const struct inliner *inliner, struct wiki_span target,
                              const struct wiki_span *label)
{
    static const char *const sisters[] = {
        "w",        "wikt",    "wiktionary", "wikipedia", "s",         "wikisource", "n",
        "wikinews", "q",       "wikiquote",  "b",         "wikibooks", "commons",    "c",
        "d",        "species", "m",          "meta",      "v",         "voy"};
    int plain = target.size > 0 && target.data[0] == ':';
    const char *colon;
    struct wiki_span prefix;
    int ns;

    if (plain)
        target = wiki_trim(wiki_span(target.data + 1, target.size - 1));
    colon = target.size ? memchr(target.data, ':', target.size) : NULL;
    prefix = wiki_trim(wiki_span(target.data, colon ? (size_t)(colon - target.data) : 0));
    ns = colon ? wiki_site_namespace(inliner->page->site, prefix) : WIKI_NS_NONE;
    if (!plain && (ns == WIKI_NS_FILE || ns == WIKI_NS_CATEGORY || ns == -2))
        return wiki_span("", 0);
    if (!plain && !label && colon && is_language(prefix))
        return wiki_span("", 0);
    if (label && label->size > 0)
        return *label;
    for (size_t i = 0; colon && i < sizeof(sisters) / sizeof(sisters[0]); i++)
        if (wiki_is(prefix, sisters[i]))
            target = wiki_trimmed(colon + 1, target.data + target.size);
    if (!label)
        return target;
    if (ns != WIKI_NS_NONE)
        target = wiki_trimmed(colon + 1, target.data + target.size);
    return pipe_trick(target);
}

static void close_link(struct inliner *inliner)
{
    struct wiki_buffer *out = inliner->out;
    struct link link = inliner->links[--inliner->depth];
    char *begin = out->data + link.start + 2, *end = out->data + out->size;
    char *pipe = link.pipe ? out->data + link.pipe : end;
    struct wiki_span label =
        wiki_span(pipe < end ? pipe + 1 : end, pipe < end ? (size_t)(end - pipe - 1) : 0);
    struct wiki_span text = shown(inliner, wiki_trimmed(begin, pipe), pipe < end ? &label : NULL);

    out->size = link.start;
    if (text.size > 0) {
        int labelled = text.data == label.data;

        memmove(out->data + link.start, text.data, text.size);
        out->size += wiki_link_quotes(out->data + link.start, text.size, labelled);
    } else {
        wiki_put_char(out, WIKI_DROPPED);
    }
}

/* [[ or ]]. */
static void take_link(struct inliner *inliner)
{
    int open = *inliner->at == '[';

    if (open && inliner->depth < LINK_DEPTH) {
        inliner->links[inliner->depth++] = (struct link){inliner->out->size, 0};
        wiki_put_text(inliner->out, "[[");
    } else if (open) {
        if (inliner->deeper++ == 0)
            inliner->dropped_from = inliner->out->size;
    } else if (inliner->deeper > 0) {
        if (--inliner->deeper == 0)
            inliner->out->size = inliner->dropped_from;
    } else if (inliner->depth > 0) {
        close_link(inliner);
    }
    inliner->at += 2;
}

/* [https://... label]: remove the address and its bracket; 'external' removes the closing
 * bracket. */
static int take_external(struct inliner *inliner)
{
    static const char *const protocols[] = {"http://", "https://", "//",    "ftp://",
                                            "mailto:", "news:",    "irc://"};
    const char *at = inliner->at + 1, *stop;
    size_t found = 0;

    /* Inside another link's label it is literal; this way the line is searched only once. */
    if (inliner->at < inliner->hopeless || inliner->at < inliner->external)
        return 0;
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]) && !found; i++) {
        size_t length = strlen(protocols[i]);

        if (wiki_begins(at, inliner->end, protocols[i]) && at + length < inliner->end)
            found = length;
    }
    if (!found)
        return 0;
    for (stop = at; stop < inliner->end && *stop != ']' && *stop != '\n';)
        stop++;
    if (stop == inliner->end || *stop == '\n') {
        inliner->hopeless = stop;
        return 0;
    }
    while (at < stop && *at != ' ' && *at != '\t' && *at != '[' && *at != '<')
        at++;
    while (at < stop && (*at == ' ' || *at == '\t'))
        at++;
    if (at == stop) {
        wiki_put_char(inliner->out, WIKI_DROPPED);
        inliner->at = stop + 1;
        return 1;
    }
    /* The next single bracket closes it, and the label in between is ordinary text. */
    for (stop = at; stop < inliner->end && *stop != '\n'; stop++) {
        int twice = stop + 1 < inliner->end && stop[1] == *stop;

        if ((*stop == '[' || *stop == ']') && twice)
            stop++;
        else if (*stop == ']')
            break;
    }
    inliner->external = stop;
    inliner->at = at;
    return 1;
}

static void take_pipe(struct inliner *inliner)
{
    if (inliner->depth > 0 && inliner->deeper == 0 && inliner->links[inliner->depth - 1].pipe == 0)
        inliner->links[inliner->depth - 1].pipe = inliner->out->size;
    wiki_put_char(inliner->out, '|');
    inliner->at++;
}

static inline wiki_matches marks(wiki_bytes bytes)
{
    return (bytes == '<') | (bytes == '|') | (bytes == '[') | (bytes == ']');
}

void wiki_inline(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out)
{
    struct inliner inliner = {.look = look,
                              .page = page,
                              .out = out,
                              .at = in->data,
                              .end = in->data + in->size,
                              .hopeless = in->data,
                              .external = in->data};

    while (inliner.at < inliner.end) {
        const char *from = inliner.at;
        int twice;

        inliner.at = wiki_find_mark(inliner.at, inliner.end, marks);
        wiki_copy(out, from, (size_t)(inliner.at - from));
        if (inliner.at == inliner.end)
            break;
        twice = inliner.end - inliner.at > 1 && inliner.at[1] == *inliner.at;
        if (*inliner.at == '<')
            take_tag(&inliner);
        else if (*inliner.at == '|')
            take_pipe(&inliner);
        else if (inliner.at == inliner.external && *inliner.at == ']')
            inliner.at++;
        else if (twice)
            take_link(&inliner);
        else if (*inliner.at != '[' || !take_external(&inliner))
            wiki_put_char(out, *inliner.at++);
    }
}

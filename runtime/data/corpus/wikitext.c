/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wikitext.h"
#include "wiki_passes.h"

#include <stdbool.h>
#include <stdlib.h>
#include "mediawiki.h"
#include "wiki_expand.h"
#include "wiki_looks.h"
#include "wiki_site.h"
#include "base/core/list.h"

struct wikitext {
    const struct wiki_options *options;
    struct wiki_look look;
    struct wiki_buffer title;
};

int wiki_options_namespaces(struct wiki_options *options, const char *list, struct error *err)
{
    const char *at = list;

    options->namespace_count = 0;
    for (;;) {
        char *end;
        long value = strtol(at, &end, 10);

        if (end == at || value < -2 || value > 32767 || (*end != ',' && *end != '\0'))
            return error_set_code(err, ERROR_USAGE,
                                  "%.100s is not a list of namespace numbers; write it like 0,14",
                                  list);
        if (options->namespace_count == WIKI_NAMESPACES)
            return error_set_code(err, ERROR_USAGE,
                                  "%.100s has more than %d namespace numbers; give fewer", list,
                                  WIKI_NAMESPACES);
        options->namespaces[options->namespace_count++] = (int)value;
        if (*end == '\0')
            return 0;
        at = end + 1;
    }
}

struct wikitext *wikitext_create(const struct wiki_options *options)
{
    struct wikitext *wikitext = xcalloc(1, sizeof(*wikitext));

    wikitext->options = wikitext->look.options = options;
    return wikitext;
}

void wikitext_destroy(struct wikitext *wikitext)
{
    if (!wikitext)
        return;
    wikitext_trim(wikitext);
    wiki_buffer_clear(&wikitext->title);
    free(wikitext);
}

void wikitext_trim(struct wikitext *wikitext)
{
    struct wiki_look *look = &wikitext->look;

    wiki_buffer_clear(&look->a);
    wiki_buffer_clear(&look->b);
    wiki_buffer_clear(&look->out);
    wiki_buffer_clear(&look->line_a);
    wiki_buffer_clear(&look->line_b);
    wiki_buffer_clear(&look->scratch);
    list_free(&look->cuts);
    list_free(&look->stack);
    wiki_frames_destroy(look->frames);
    look->frames = NULL;
}

int wiki_heading(struct wiki_span line, struct wiki_span *words)
{
    static const char signs[] = "=======";
    size_t count = 0;

    while (count < line.size && count < 7 && line.data[count] == '=')
        count++;
    for (; count >= 2; count--) {
        const char *end = line.data + line.size;
        const char *close = wiki_find(line.data + count, end, signs + 7 - count);

        if (!close)
            continue;
        *words = wiki_trim(wiki_span(line.data + count, (size_t)(close - line.data) - count));
        return (int)count;
    }
    return 0;
}

/* Does the text call one of these templates, or contain the switch? */
static bool is_disambiguation(struct wiki_span title, const struct wiki_buffer *text)
{
    static const char *const names[] = {"disambig",
                                        "disamb",
                                        "dab",
                                        "hndis",
                                        "geodis",
                                        "begriffsklärung",
                                        "homonymie",
                                        "desambiguación",
                                        "disambigua",
                                        "desambiguação",
                                        "ujednoznacznienie",
                                        "неоднозначность",
                                        "doorverwijspagina",
                                        "dp",
                                        "dpintitel",
                                        "förgrening",
                                        "aimai",
                                        "曖昧さ回避",
                                        "消歧义",
                                        "消歧義",
                                        "peker",
                                        "flertydig",
                                        "täsmennyssivu",
                                        "rozcestník",
                                        "egyért",
                                        "anlam ayrımı",
                                        "багатозначність",
                                        "توضيح",
                                        "ابهام‌زدایی",
                                        "동음이의"};
    const char *end = text->data + text->size, *at = text->data;

    if (title.size > 16 && wiki_is(wiki_span(title.data + title.size - 16, 16), "(disambiguation)"))
        return true;
    if (wiki_find(at, end, "__DISAMBIG__"))
        return true;
    while ((at = wiki_find(at, end, "{{"))) {
        at += 2;
        while (at < end && (*at == ' ' || *at == '\n'))
            at++;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            size_t length;

            if (!wiki_begins(at, end, names[i]))
                continue;
            length = strlen(names[i]);
            if (at + length == end)
                continue;
            /* {{disambiguation}} and {{disambig-cleanup}}, not {{dabbler}}. */
            if (i == 0 || at[length] == '}' || at[length] == '|' || wiki_is_space(at[length]))
                return true;
        }
    }
    return false;
}

static bool wanted_namespace(const struct wiki_options *options, int ns)
{
    for (size_t i = 0; i < options->namespace_count; i++)
        if (options->namespaces[i] == ns)
            return true;
    return options->namespace_count == 0 && ns == 0;
}

static bool is_redirect_text(const struct wiki_buffer *text)
{
    struct wiki_span trimmed = wiki_trim(wiki_span(text->data, text->size));

    return wiki_begins(trimmed.data, trimmed.data + trimmed.size, "#redirect");
}

/* Does the text have this many characters, not counting white space? */
static bool is_long_enough(struct wiki_span text, int64_t wanted)
{
    int64_t count = 0;

    for (size_t i = 0; i < text.size && count < wanted; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80 && !wiki_is_space(text.data[i]);
    return count >= wanted;
}

static void convert(struct wikitext *wikitext, struct wiki_span title, const struct wiki_site *site)
{
    struct wiki_look *look = &wikitext->look;
    struct wiki_page_info page = {title, site};
    struct wiki_buffer *buffers[] = {&look->a,      &look->b,      &look->out,
                                     &look->line_a, &look->line_b, &look->scratch};

    /* The passes compute addresses even in empty buffers. */
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        if (!buffers[i]->data)
            wiki_buffer_grow(buffers[i], 1);
    look->out.size = look->head = look->depth = 0;
    if (wikitext->options->style == WIKI_EXTRACTOR)
        wiki_look_extractor(look, &page);
    else
        wiki_look_clean(look, &page);
}

/* A template that calls itself is broken, even if templates are not wanted. */
static enum document_fault check_template(struct wikitext *wikitext, const struct wiki_page *page,
                                          struct wiki_span title)
{
    struct wiki_buffer *a = &wikitext->look.a;

    if (page->ns != WIKI_NS_TEMPLATE || !page->wikitext || page->redirect ||
        !wiki_may_loop(page->text, page->title))
        return FAULT_NONE;
    if (mediawiki_unescape(page->text, a) < 0)
        return FAULT_UTF8;
    return wiki_loops(wiki_span(a->data, a->size), title) ? FAULT_LOOP : FAULT_NONE;
}

enum document_fault wikitext_page(struct wikitext *wikitext, const char *data, size_t size,
                                  const struct wiki_site *site, struct wiki_document *document)
{
    const struct wiki_options *options = wikitext->options;
    struct wiki_buffer *a = &wikitext->look.a;
    struct wiki_page page;
    enum document_fault fault = mediawiki_page(data, size, &page);

    memset(document, 0, sizeof(*document));
    wikitext->title.size = a->size = 0;
    if (mediawiki_unescape(page.title, &wikitext->title) < 0)
        fault = fault ? fault : FAULT_UTF8;
    document->title = wikitext->title.size > 0
                          ? wiki_span(wikitext->title.data, wikitext->title.size)
                          : wiki_span("", 0);
    document->id = page.id;
    document->revision = page.revision;
    if (fault == FAULT_NONE)
        fault = check_template(wikitext, &page, document->title);
    if (fault != FAULT_NONE)
        return fault;
    a->size = 0;
    if (!wanted_namespace(options, page.ns))
        return DOCUMENT_NAMESPACE;
    if (page.redirect && !options->redirects)
        return DOCUMENT_REDIRECT;
    if (!page.wikitext)
        return DOCUMENT_MODEL;
    if (mediawiki_unescape(page.text, a) < 0)
        return FAULT_UTF8;
    if (!options->redirects && is_redirect_text(a))
        return DOCUMENT_REDIRECT;
    if (!options->disambiguations && is_disambiguation(document->title, a))
        return DOCUMENT_DISAMBIGUATION;
    if (a->size > 0)
        document->unclosed = wiki_unclosed(&wikitext->look, a);
    if (document->unclosed.fault != FAULT_NONE)
        document->unclosed.place = (size_t)(page.text.data - data) +
                                   mediawiki_escaped(page.text, document->unclosed.place);
    convert(wikitext, document->title, site);
    if (wikitext->look.depth > WIKI_DEPTH)
        return FAULT_DEPTH;
    document->text = wiki_span(wikitext->look.out.data, wikitext->look.out.size);
    if (!is_long_enough(wiki_span(document->text.data + wikitext->look.head,
                                  document->text.size - wikitext->look.head),
                        options->min_length))
        return DOCUMENT_SHORT;
    return FAULT_NONE;
}

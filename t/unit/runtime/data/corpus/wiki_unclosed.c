/* SPDX-License-Identifier: Apache-2.0 */
/* Wikitext in; the first markup that is never closed, and its place, out. '^' marks the place. */
#include "config.h"
#include "data/corpus/wikitext.h"
#include "tap.h"

#include <stdlib.h>

static const struct {
    const char *source; /* without entities; '^' is not part of it */
    const char *text;   /* what is reported; NULL: nothing */
} rows[] = {
    {"a [[b]] {{c|{{d}}}} <ref>e</ref> <!-- f --> <nowiki>[[</nowiki>", NULL},
    {"", NULL},
    /* Comments */
    {"a ^<!-- b [[c", "<!-- without -->"},
    {"<!-- [[a {{b <ref> --> c", NULL},
    {"<!-- a ---> b", NULL},
    /* Links */
    {"a ^[[b c", "[[ without ]]"},
    {"^[[a] [b]", "[[ without ]]"},
    {"[[a|b [[c]] d]] [[[e]]] [[[[f]]]] [http://x [[g]]] [[h|[http://x y]]]", NULL},
    {"]] }} |} </ref> </table> a[[1]]", NULL},
    {"{{a|^[[b}} c", "[[ without ]]"},
    {"^[[a {{b ]] }}", "[[ without ]]"},
    {"[a [b", NULL},
    /* Templates and parameters */
    {"a ^{{b|c} d", "{{ without }}"},
    {"[[a ^{{b]] c", "{{ without }}"},
    {"{{a|{{{b|}}}}} {{{c}}} {{{{d}}}} {{{{{e}}}}} {{{!}} {{!}}}", NULL},
    {"{{a|{b}}} {{c|{\"d\":{\"e\":1}}}} -{{{f}}}-", NULL},
    {"{{a|\n|}} {{b|}}", NULL},
    {"{{a}} ^{{b {{c}} [[d]]", "{{ without }}"},
    {"{ a", NULL},
    /* What is in a tag is closed in it */
    {"a<ref>^{{cite|b</ref> c}}", "{{ without }}"},
    {"<ref>^[[a</ref> b]]", "[[ without ]]"},
    {"a ^<ref>b", "<ref> without </ref>"},
    {"a ^<REF name=\"x\" >b", "<ref> without </ref>"},
    {"a <ref name=x/> <ref name=\"y\" /> <ref></ref> <references/> </ref>", NULL},
    {"a ^<ref>b <ref>c</ref> d", "<ref> without </ref>"},
    {"{{a|^<ref>b}} c", "<ref> without </ref>"},
    {"a <ref>{{b</ref name=c> d}}</ref>", NULL},
    {"a ^<ref>b</ref name=c> d", "<ref> without </ref>"},
    {"a <ref>b</ref > <references><ref>c</ref></references>", NULL},
    {"a <ref>^<gallery></ref>", "<gallery> without </gallery>"},
    {"<references> ^<ref>a</references>", "<ref> without </ref>"},
    {"^<references> a", "<references> without </references>"},
    {"a ^<ref name=b", "<ref> without </ref>"},
    {"a <refer> <r> <br> <div> <small> <p> <b", NULL},
    /* What is in these is not markup */
    {"a <nowiki>{{ [[ <ref> <!--</nowiki> b", NULL},
    {"a ^<nowiki> {{b}}", "<nowiki> without </nowiki>"},
    {"a <NoWiki /> <nowiki/> b", NULL},
    {"<math>[[a]</math> ^<math>b", "<math> without </math>"},
    {"<pre>[[</pre> <code>{{</code> <syntaxhighlight lang=c>a[[</syntaxhighlight>", NULL},
    {"^<code>a<code>", "<code> without </code>"},
    {"^<syntaxhighlight lang=\"c\">a </syntax>", "<syntaxhighlight> without </syntaxhighlight>"},
    {"a [[b <includeonly>c", NULL},
    {"[[a <includeonly>[[b</includeonly>]]", NULL},
    /* Tables */
    {"{|\n| a\n|}\n :{| class=b\n|-\n| c || d\n |}", NULL},
    {"a\n^{|\n| b", "{| without |}"},
    {"{|\n| a\n{|\n| b\n|}\n|}", NULL},
    {"^{|\n| a\n{|\n| b\n|}", "{| without |}"},
    {"{|\n| a\n{{s-end}}", NULL},
    {"{|\n| a\n{{End box|x}}", NULL},
    {"^{|\n| a\n{{flag|end}} {{legend2}}", "{| without |}"},
    {"{|\n| {{Infobox\n|a=b\n|}}\n|}", NULL},
    {"^{|\n| {{Infobox\n|a=b\n|}}\n", "{| without |}"},
    {"{{a|\n{|\n| b\n|}}}", NULL},
    {"{|\n| {{a|{{b|c|}}}} {{{d|}}} {{e|{{f|}}{{{g|}}}}}\n|}", NULL},
    {"a {| b", NULL},
    {"{|\n| a\n{{!}}}", NULL},
    {"^{|\n| a\n{{{!}}\n{{!}} b\n{{!}}}", "{| without |}"},
    {"{|\n| a\n{{{!}}\n{{!}} b\n{{!}}}\n|}", NULL},
    {"{{a|\n{{{!}}\n{{!}} b\n{{!}}}\n}}", NULL},
    {"^{|\n| a\n{{!}} {{{!}}} {{x!}}}", "{| without |}"},
    {"^<table><tr><td>a", "<table> without </table>"},
    {"<table><tr><td><table></table></table>", NULL},
};

/* A page with this wikitext: escaped, and without the mark. */
static char *make_page(const char *source)
{
    char *page = malloc(200 + 6 * strlen(source)), *to = page;

    to = stpcpy(to, "<page><title>T</title><ns>0</ns><id>1</id><revision><id>2</id><text>&amp;\n");
    for (; *source; source++) {
        if (*source == '<')
            to = stpcpy(to, "&lt;");
        else if (*source == '"')
            to = stpcpy(to, "&quot;");
        else if (*source != '^')
            *to++ = *source;
    }
    strcpy(to, "</text></revision></page>");
    return page;
}

/* The place of the mark in that page: after '&amp;', and as many bytes as before are escaped. */
static size_t marked_place(const char *source)
{
    char *head = strndup(source, strcspn(source, "^")), *page = make_page(head);
    size_t place = (size_t)(strstr(page, "</text>") - page);

    free(head);
    free(page);
    return place;
}

static void try_row(struct wikitext *wikitext, size_t i)
{
    char *page = make_page(rows[i].source), text[80] = "nothing";
    const char *wanted = rows[i].text ? rows[i].text : "nothing";
    struct wiki_document document;
    enum document_fault fault = wikitext_page(wikitext, page, strlen(page), NULL, &document);

    if (document.unclosed.fault != FAULT_NONE)
        wiki_unclosed_text(&document.unclosed, text, sizeof(text));
    if (!ok(fault == FAULT_NONE && strcmp(text, wanted) == 0 &&
                (!rows[i].text || document.unclosed.place == marked_place(rows[i].source)),
            "%s in %s", wanted, rows[i].source))
        diag("got: %s at %zu of %s", text, document.unclosed.place, page);
    free(page);
}

/* However much is open, a page takes linear time. */
static void try_many(struct wikitext *wikitext, const char *unit, const char *end, const char *text)
{
    size_t length = strlen(unit), count = 900, size = length * count + strlen(end);
    char *source = malloc(size + 1), *to = source, what[80] = "nothing", *page;
    struct wiki_document document;

    for (size_t i = 0; i < count; i++)
        to = stpcpy(to, unit);
    strcpy(to, end);
    page = make_page(source);
    wikitext_page(wikitext, page, strlen(page), NULL, &document);
    if (document.unclosed.fault != FAULT_NONE)
        wiki_unclosed_text(&document.unclosed, what, sizeof(what));
    is(what, text, "900 times");
    free(page);
    free(source);
}

int main(void)
{
    struct wiki_options options = {.no_title = 1, .disambiguations = 1};

    for (int style = 0; style < 2; style++) {
        struct wikitext *wikitext;

        options.style = style;
        wikitext = wikitext_create(&options);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            try_row(wikitext, i);
        try_many(wikitext, "[[", "}}}}", "[[ without ]]");
        try_many(wikitext, "<ref>", "</gallery></ref>", "<ref> without </ref>");
        try_many(wikitext, "{{a|<ref>{{b}}</ref>", "", "{{ without }}");
        try_many(wikitext, "\n{|\n| ", "\n|}", "{| without |}");
        wikitext_destroy(wikitext);
    }
    return done_testing();
}

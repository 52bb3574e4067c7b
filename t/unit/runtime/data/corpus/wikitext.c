/* SPDX-License-Identifier: Apache-2.0 */
/* Wikitext in, text out: a table for each look. */
#include "config.h"
#include "data/corpus/corpus.h"
#include "tap.h"
#include "wiki_text.h"

#include <stdlib.h>

struct row {
    const char *source, *text;
};

static const struct row clean[] = {
    {"'''A''' ''b'' '''''c''''' L''''d'''", "A b c L'd"},
    {"[[A]] [[A|b]] [[bus]]es [[A (x)|]] [[:Category:C|c]] [[wikt:w]]", "A b buses A c w"},
    {"a [[File:x.jpg|thumb|left|A [[boat]] here]] b [[Category:X]]", "a b"},
    {"a [[de:Hamburg]] [[Star Trek: Picard]]", "a Star Trek: Picard"},
    {"a [https://x.org b c] d [https://x.org] https://x.org", "a b c d https://x.org"},
    {"a<ref>b</ref> c<ref name=\"d/e\">f</ref><ref name=g /> h", "a c h"},
    {"a <ref>b", "a b"},
    {"a<!-- b -->c <!-- d", "ac"},
    {"a {{unknown|b|{{c}}}} d", "a d"},
    {"a ({{unknown}}; {{lang|fr|b}}) c ({{unknown}}), d (f) g()", "a (b) c, d (f) g()"},
    {"{{convert|120|km|mi}}; {{convert|5|ft}}; {{convert|100|C}}; {{convert|1|mi|km|1}}",
     "120 kilometres (75 mi); 5 feet (1.5 m); 100 \xc2\xb0"
     "C (212 \xc2\xb0"
     "F); 1 mile (1.6 km)"},
    {"{{convert|5|to|10|kg|lb|abbr=on}}; {{convert|2|m|ft|sp=us}}; {{cvt|1,300|mi}}",
     "5 to 10 kg (11 to 22 lb); 2 meters (6.6 ft); 1,300 mi (2,100 km)"},
    {"{{nihongo|Tokyo|\xe6\x9d\xb1\xe4\xba\xac|T\xc5\x8dky\xc5\x8d}}",
     "Tokyo (\xe6\x9d\xb1\xe4\xba\xac, T\xc5\x8dky\xc5\x8d)"},
    {"{{chem|H|2|O}} {{nowrap|a b}} {{val|12345|u=km}} {{frac|3|1|2}} {{formatnum:12345.67}}",
     "H2O a b 12,345 km 3 1/2 12,345.67"},
    {"{{birth date|1950|05|6|df=y}}, {{death date and age|2001|2|3|1950|5|6}}, {{start date|1999}}",
     "6 May 1950, February 3, 2001, 1999"},
    {"{{#if:|a|b}} {{#ifeq:1|1.0|c|d}} {{#switch:x|x|y=e|#default=f}} {{#expr:(1+2)^2/3}}",
     "b c e 3"},
    {"{{#expr:1/0}}x {{#expr:2 > 1 and not 0}} {{#ifexpr:1=2|a|b}} {{{p|q}}}", "x 1 b q"},
    {"== A ==\n=== B ===\nc\n== D ==\n\n== E ==\nf", "A\n\nB\n\nc\n\nE\n\nf"},
    {"a\n* b\n** c\n* d\n# e\n# f\n: g\nh", "a\n- b\n  - c\n- d\n1. e\n2. f\ng\n\nh"},
    {"a\n{|\n! b !! c\n|-\n| d || style=x | e\n|}\nf", "a\n\nf"},
    {"<math>a < b</math> <nowiki>''[[x]]''</nowiki> <code>f( ; )</code>",
     "$a < b$ ''[[x]]'' f( ; )"},
    {"<pre>\n* a\n  b\n</pre>", "* a\n  b"},
    {"AT&amp;T &lt;b&gt; 5&nbsp;km &#8212; &#55296; &bogus; &apos;",
     "AT&T <b> 5 km \xe2\x80\x94 \xef\xbf\xbd &bogus; '"},
    {"a<br>b<div>c</div>d <small>e</small> H<sub>2</sub>O <unknown>f</unknown>",
     "a\nb\nc\nd e H2O <unknown>f</unknown>"},
    {"__NOTOC__a {{DEFAULTSORT:x}}{{PAGENAME}}", "a T"},
    {"{{ a [[ b", "{{ a b"},
    {"}} ]] |} a", "}} |} a"},
    /* MediaWiki's rule for quotes: bold is an apostrophe and italics where both are odd. */
    {"dans l'''Iliade'' d'Hom\xc3\xa8re", "dans l'Iliade d'Hom\xc3\xa8re"},
    {"the ''Iliad'''s description", "the Iliad's description"},
    {"ab'''c l'''d'' '''e", "abc l'd e"},   /* a word of one letter comes first */
    {"'''a'' bc'''d e '''f", "'a bcd e f"}, /* then a longer one, or none */
    {"ab '''c'' d", "ab 'c d"},             /* then a space */
    {"''a'' '''b''' '''c", "a b c"},        /* bold alone does not pair up: no change */
    {"l''''a'' b", "l''a b"},               /* four: an apostrophe and bold */
    {"'''''''a''''' b", "''a b"},           /* seven: two apostrophes */
    {"l'''a''\nm'''b''", "l'a\nm'b"},       /* each line for itself */
    {"'''a ''b<br>c'' d'''", "a b\nc d"},   /* <br> does not end a line */
    {"[[x|l'''a'']] m'''b''", "l'a m'b"},   /* a label for itself */
    {"[[x|d']]''e'' [[L'A|l'a]] [[L'A]]", "d'e l'a L'A"},
    {"l'''a<ref>''b</ref>'' <nowiki>'''</nowiki>c", "l'a '''c"},
    /* Exponents, indices and fractions stay numbers. */
    {"2<sup>10</sup> = 1024, 10<sup>\xe2\x88\x92"
     "3</sup> m<sup>2</sup>",
     "2\xc2\xb9\xe2\x81\xb0 = 1024, 10\xe2\x81\xbb\xc2\xb3 m\xc2\xb2"},
    {"10<sup>&minus;1</sup> x<SUP>''n''+1</SUP> 2{{sup|4}}",
     "10\xe2\x81\xbb\xc2\xb9 x\xe2\x81\xbf\xe2\x81\xba\xc2\xb9 2\xe2\x81\xb4"},
    {"x<sup>1.5</sup> 2<sup>2k</sup> 2<sup>''k''</sup>", "x^1.5 2^(2k) 2^k"},
    {"1<sup>er</sup> 2<sup>nd</sup> 10<sup>e</sup> a<sup>[1]</sup> <sup>b", "1er 2nd 10e a[1] b"},
    {"H<sub>2</sub>O 101<sub>2</sub> log<sub>2</sub>8 x<sub>i</sub>",
     "H2O 101\xe2\x82\x82 log\xe2\x82\x82"
     "8 xi"},
    {"5{{frac|1|2}} {{frac|3|4}} {{frac|2}} {{sfrac|a|b}} 5<sup>1</sup>&frasl;<sub>2</sub>",
     "5 1/2 3/4 1/2 a/b 5 1/2"},
    {"", ""},
};

static const struct row tables[] = {
    {"{|\n| l'''a'' || m'''b''\n|}", "l'a | m'b"},
    {"a\n{|\n|+ t\n! b !! c\n|-\n| d || style=x | e\n|}\nf", "a\n\nt\nb | c\nd | e\nf"},
};

static const struct row extractor[] = {
    {"'''A''' ''b'' '''''c''''' L''''d''' ''\"e\"''", "A \"b\" c L'd \"e\""},
    {"[[A]] [[A|b]] [[bus]]es [[A (x)|]] [[:Category:C|c]] [[wikt:w]]x", "A b buses wikt:wx"},
    {"== A ==\n=== B ===\nc\n== D? ==\ne\n== F ==", "A.\nB.\nc\nD?\ne"},
    {"<math>a</math> <code>b</code> <math>a</math> <math>c</math>",
     "formula_1 codice_1 formula_1 formula_3"},
    {"AT&amp;T < a", "AT&amp;T &lt; a"},
    {"a,,b ,. c..... d", "a,b. c... d"},
    {"a\n---\nb\n!!\nc", "a\nb\nc"},
    {"{{convert|1|km}} is , x", " is, x"},
    {"a\n* b\n: c\nd", "a\n c\nd"},
    {"{{#if:x|y}} {{lc:ABC}} {{#expr:10/5}}", "y abc 2.0"},
    {"a<br>b<p>c</p>d", "a b\nc\nd"},
};

static void try_rows(const char *name, const struct wiki_options *options, const struct row *rows,
                     size_t count)
{
    struct wikitext *wikitext = wikitext_create(options);

    for (size_t i = 0; i < count; i++) {
        char *page = wiki_text_page(rows[i].source, strlen(rows[i].source)), *text;
        struct wiki_document document;

        is_int(wikitext_page(wikitext, page, strlen(page), NULL, &document), FAULT_NONE,
               "a valid page");
        text = strndup(document.text.data, document.text.size);
        if (!is(text, rows[i].text, name))
            diag("source: %s", rows[i].source);
        free(text);
        free(page);
    }
    wikitext_destroy(wikitext);
}

#define TRY(name, rows, ...)                                                                  \
    try_rows(name, &(struct wiki_options){.redirects = 1, .disambiguations = 1, __VA_ARGS__}, \
             rows, sizeof(rows) / sizeof(rows[0]))

#define TEMPLATE(text) \
    "<page><title>Vorlage:A b</title><ns>10</ns><revision><text>" text "</text></revision></page>"

static void try_pages(void)
{
    static const struct {
        const char *page;
        enum document_fault fault;
        const char *text;
    } rows[] = {
        {"<page><title>A&amp;B</title><ns>0</ns><id>3</id><revision><id>4</id><contributor><id>5</"
         "id>"
         "</contributor><text xml:space=\"preserve\">x "
         "&lt;b&gt;y&lt;/b&gt;</text></revision></page>",
         FAULT_NONE, "A&B\n\nx y"},
        {"<page><title>A</title><ns>1</ns><revision><text>x</text></revision></page>",
         DOCUMENT_NAMESPACE, ""},
        {"<page><title>A</title><ns>0</ns><redirect title=\"B\" "
         "/><revision><text>x</text></revision>"
         "</page>",
         DOCUMENT_REDIRECT, ""},
        {"<page><title>A</title><ns>0</ns><revision><text>#redirect [[B]]</text></revision></page>",
         DOCUMENT_REDIRECT, ""},
        {"<page><title>A</title><ns>0</ns><revision><model>css</model><text>x</text></revision></"
         "page>",
         DOCUMENT_MODEL, ""},
        {"<page><title>A</title><ns>0</ns><revision><text>x "
         "{{Disambiguation}}</text></revision></page>",
         DOCUMENT_DISAMBIGUATION, ""},
        {"<page><title>A</title><ns>0</ns><revision><text bytes=\"0\" /></revision></page>",
         DOCUMENT_SHORT, ""},
        {"<page><title>A</title><ns>0</ns><revision><text>x</text></revision>", FAULT_CUT, ""},
        {"<page><title>A</title><ns>0</ns><revision><text>x <b></text></revision></page>",
         FAULT_XML, ""},
        {"<page><title>A</title><ns>0</ns><revision></revision></page>", FAULT_XML, ""},
        {"<page></page>", FAULT_XML, ""},
        {"<page><title>A</title><ns>0</ns><revision><text>\xff</text></revision></page>",
         FAULT_UTF8, ""},
        {TEMPLATE("x {{A_b}} y"), FAULT_LOOP, ""},
        {TEMPLATE("{{{{ a b\n| 1 = {{c}} }}}}"), FAULT_LOOP, ""},
        {TEMPLATE("{{#if: {{{1|}}} | {{Template: a b|2}} }}"), FAULT_LOOP, ""},
        {TEMPLATE("{{vorlage:A b}}"), FAULT_LOOP, ""},
        {TEMPLATE("&lt;noinclude&gt;{{A b}}&lt;/noinclude&gt; {{A b}}"), FAULT_LOOP, ""},
        {TEMPLATE("{{A b}} &lt;onlyinclude&gt;{{A b}}&lt;/onlyinclude&gt;"), FAULT_LOOP, ""},
        {TEMPLATE("&lt;nowiki&gt; &lt;nowiki&gt; {{A b}}"), FAULT_LOOP, ""},
        {TEMPLATE("{{A bc}} {{A}} {{:A b}} {{{A b}}} {{A b}"), DOCUMENT_NAMESPACE, ""},
        {TEMPLATE("&lt;!-- {{A b}} --&gt; &lt;NOWIKI&gt;{{A b}}&lt;/nowiki&gt;"),
         DOCUMENT_NAMESPACE, ""},
        {TEMPLATE("&lt;noinclude&gt;{{A b}}&lt;/noinclude&gt;"), DOCUMENT_NAMESPACE, ""},
        {TEMPLATE("{{A b}} &lt;onlyinclude&gt;x&lt;/onlyinclude&gt; {{A b}}"), DOCUMENT_NAMESPACE,
         ""},
        {"<page><title>A b</title><ns>0</ns><id>3</id><revision><id>4</id><text>x {{:A b}} y"
         "</text></revision></page>",
         FAULT_NONE, "A b\n\nx y"},
    };
    struct wiki_options options = {.min_length = 1};
    struct wikitext *wikitext = wikitext_create(&options);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wiki_document document;
        enum document_fault fault =
            wikitext_page(wikitext, rows[i].page, strlen(rows[i].page), NULL, &document);

        if (!ok(fault == rows[i].fault, "page %zu: %s", i, document_fault_text(rows[i].fault)))
            diag("got: %s", document_fault_text(fault));
        if (fault == FAULT_NONE)
            ok(document.text.size == strlen(rows[i].text) &&
                   memcmp(document.text.data, rows[i].text, document.text.size) == 0 &&
                   document.id == 3 && document.revision == 4,
               "its text, number and revision");
    }
    wikitext_destroy(wikitext);
}

static void try_detokenize(void)
{
    static const struct row rows[] = {
        {" = A = \n", "= A =\n"},
        {" = = B = = \n", "== B ==\n"},
        {" 1 @,@ 500 ft ( 460 m ) , well @-@ known ; 3 @.@ 5 . \n",
         "1,500 ft (460 m), well-known; 3.5.\n"},
        {" He said \" no \" and didn 't go to the boys ' school 's . \n",
         "He said \"no\" and didn't go to the boys' school's.\n"},
    };
    struct wiki_buffer out = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        detokenize(rows[i].source, strlen(rows[i].source), &out);
        wiki_put_char(&out, '\0');
        is(out.data, rows[i].text, "detokenized");
    }
    wiki_buffer_clear(&out);
}

int main(void)
{
    TRY("clean", clean, .style = WIKI_CLEAN, .no_title = 1);
    TRY("tables as text", tables, .style = WIKI_CLEAN, .no_title = 1, .tables = WIKI_TABLES_TEXT);
    TRY("WikiExtractor", extractor, .style = WIKI_EXTRACTOR);
    try_pages();
    try_detokenize();
    return done_testing();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The most frequent inline templates of running text, without the wiki's own definitions. All
 * others (boxes, navigation, citations, maintenance) are dropped. */
#include "config.h"
#include "wiki_expand.h"

#include <pthread.h>
#include <stdlib.h>

typedef void handler(const struct wiki_call *call, struct wiki_buffer *out);

/* call->extra: index of the argument, and the text before it. */
static void t_argument(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span value = wiki_positional(call, (size_t)(call->extra[0] - '0'));

    if (value.size == 0 && call->extra[0] == '1')
        value = wiki_named(call, "text");
    if (value.size == 0)
        return;
    wiki_put_text(out, call->extra + 1);
    wiki_put_span(out, value);
}

static void put_tag(struct wiki_buffer *out, const char *name, struct wiki_span text)
{
    wiki_put_char(out, '<');
    wiki_put_text(out, name);
    wiki_put_char(out, '>');
    wiki_put_span(out, text);
    wiki_put_text(out, "</");
    wiki_put_text(out, name);
    wiki_put_char(out, '>');
}

static void t_tag(const struct wiki_call *call, struct wiki_buffer *out)
{
    put_tag(out, call->extra, wiki_positional(call, 1));
}

static void t_text(const struct wiki_call *call, struct wiki_buffer *out)
{
    wiki_put_text(out, call->extra);
}

/* Write all positional arguments with call->extra between them. */
static void t_join(const struct wiki_call *call, struct wiki_buffer *out)
{
    for (size_t i = 1; i <= call->count; i++) {
        struct wiki_span value = wiki_positional(call, i);

        if (value.size == 0)
            continue;
        if (i > 1 && out->size > 0)
            wiki_put_text(out, call->extra);
        wiki_put_span(out, value);
    }
}

static void t_block(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span text = wiki_positional(call, 1), author = wiki_positional(call, 2);

    if (text.size == 0)
        text = wiki_named(call, "text");
    if (text.size == 0)
        text = wiki_named(call, "quote");
    if (author.size == 0)
        author = wiki_named(call, "author");
    if (text.size == 0)
        return;
    wiki_put_char(out, '\n');
    wiki_put_span(out, text);
    if (author.size > 0) {
        wiki_put_text(out, " \xe2\x80\x94 ");
        wiki_put_span(out, author);
    }
    wiki_put_char(out, '\n');
}

/* --- Languages -------------------------------------------------------------------------------- */

static const char *language(struct wiki_span code)
{
    static const char *const names[][2] = {
        {"ar", "Arabic"},         {"bg", "Bulgarian"},  {"ca", "Catalan"},
        {"cs", "Czech"},          {"cy", "Welsh"},      {"da", "Danish"},
        {"de", "German"},         {"el", "Greek"},      {"en", "English"},
        {"eo", "Esperanto"},      {"es", "Spanish"},    {"et", "Estonian"},
        {"eu", "Basque"},         {"fa", "Persian"},    {"fi", "Finnish"},
        {"fr", "French"},         {"ga", "Irish"},      {"gd", "Scottish Gaelic"},
        {"grc", "Ancient Greek"}, {"he", "Hebrew"},     {"hi", "Hindi"},
        {"hr", "Croatian"},       {"hu", "Hungarian"},  {"hy", "Armenian"},
        {"id", "Indonesian"},     {"is", "Icelandic"},  {"it", "Italian"},
        {"ja", "Japanese"},       {"ka", "Georgian"},   {"kk", "Kazakh"},
        {"ko", "Korean"},         {"la", "Latin"},      {"lt", "Lithuanian"},
        {"lv", "Latvian"},        {"mk", "Macedonian"}, {"mn", "Mongolian"},
        {"ms", "Malay"},          {"nl", "Dutch"},      {"no", "Norwegian"},
        {"pl", "Polish"},         {"pt", "Portuguese"}, {"ro", "Romanian"},
        {"ru", "Russian"},        {"sa", "Sanskrit"},   {"sk", "Slovak"},
        {"sl", "Slovene"},        {"sq", "Albanian"},   {"sr", "Serbian"},
        {"sv", "Swedish"},        {"sw", "Swahili"},    {"ta", "Tamil"},
        {"te", "Telugu"},         {"th", "Thai"},       {"tr", "Turkish"},
        {"uk", "Ukrainian"},      {"ur", "Urdu"},       {"uz", "Uzbek"},
        {"vi", "Vietnamese"},     {"yi", "Yiddish"},    {"zh", "Chinese"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (wiki_is(code, names[i][0]))
            return names[i][1];
    return NULL;
}

/* {{lang-de|Wort}}: German: Wort */
static void put_language(const struct wiki_call *call, struct wiki_span code,
                         struct wiki_buffer *out)
{
    struct wiki_span text = wiki_positional(call, 1);
    const char *name = language(code);

    if (text.size == 0)
        return;
    if (name && !wiki_is(wiki_named(call, "label"), "none")) {
        wiki_put_text(out, name);
        wiki_put_text(out, ": ");
    }
    wiki_put_span(out, text);
}

/* {{langx|de|Wort}} */
static void t_langx(const struct wiki_call *call, struct wiki_buffer *out)
{
    const char *name = language(wiki_positional(call, 1));

    if (name) {
        wiki_put_text(out, name);
        wiki_put_text(out, ": ");
    }
    wiki_put_span(out, wiki_positional(call, 2));
}

/* {{transl|ar|DIN|text}} or {{transl|ar|text}}. */
static void t_transl(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span third = wiki_positional(call, 3);

    wiki_put_span(out, third.size > 0 ? third : wiki_positional(call, 2));
}

/* {{nihongo|English|kanji|romaji|extra|extra2}} */
static void t_nihongo(const struct wiki_call *call, struct wiki_buffer *out)
{
    static const int orders[2][3] = {{1, 2, 3}, {3, 2, 1}};
    const int *order = orders[call->extra[0] == '3'];
    struct wiki_span word = wiki_positional(call, (size_t)order[0]), more;
    int inside = 0;

    wiki_put_span(out, word);
    for (size_t i = 1; i < 4; i++) {
        more = wiki_positional(call, i < 3 ? (size_t)order[i] : 4);
        if (more.size == 0)
            continue;
        wiki_put_text(out, inside++ ? ", " : word.size > 0 ? " (" : "(");
        wiki_put_span(out, more);
    }
    if (inside)
        wiki_put_char(out, ')');
    more = wiki_positional(call, 5);
    if (more.size > 0) {
        wiki_put_char(out, ' ');
        wiki_put_span(out, more);
    }
}

/* {{zh|c=...|p=...}} */
static void t_zh(const struct wiki_call *call, struct wiki_buffer *out)
{
    static const char *const rows[][2] = {
        {"c", "Chinese: "}, {"s", "simplified Chinese: "},    {"t", "traditional Chinese: "},
        {"p", "pinyin: "},  {"w", "Wade\xe2\x80\x93Giles: "}, {"l", "lit. "}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wiki_span value = wiki_named(call, rows[i][0]);

        if (value.size == 0)
            continue;
        if (out->size > 0)
            wiki_put_text(out, "; ");
        wiki_put_text(out, rows[i][1]);
        wiki_put_span(out, value);
    }
}

/* {{IPAc-en|ˈ|ɒ|r|ɪ|n}} */
static void t_ipac(const struct wiki_call *call, struct wiki_buffer *out)
{
    wiki_put_char(out, '/');
    for (size_t i = 1; i <= call->count; i++) {
        struct wiki_span value = wiki_positional(call, i);

        if (wiki_is(value, "lang") || wiki_is(value, "pron") || wiki_is(value, "local"))
            continue;
        if (wiki_is(value, "_"))
            wiki_put_char(out, ' ');
        else
            wiki_put_span(out, value);
    }
    wiki_put_char(out, '/');
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static void t_val(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span error = wiki_positional(call, 2), exponent = wiki_named(call, "e");
    struct wiki_span unit = wiki_named(call, "u");

    wiki_put_span(out, wiki_named(call, "p"));
    wiki_format_number(wiki_positional(call, 1), out);
    if (error.size > 0) {
        wiki_put_text(out, "\xc2\xb1");
        wiki_put_span(out, error);
    }
    if (exponent.size > 0) {
        wiki_put_text(out, "\xc3\x97"
                           "10^");
        wiki_put_span(out, exponent);
    }
    if (unit.size == 0)
        unit = wiki_named(call, "ul");
    if (unit.size > 0) {
        wiki_put_char(out, ' ');
        wiki_put_span(out, unit);
    }
    wiki_put_span(out, wiki_named(call, "s"));
}

static void t_fraction(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span a = wiki_positional(call, 1), b = wiki_positional(call, 2),
                     c = wiki_positional(call, 3);

    if (b.size == 0) {
        b = a;
        a = wiki_span("1", 1);
    }
    if (c.size > 0) {
        wiki_put_span(out, a);
        wiki_put_char(out, ' ');
        a = b;
        b = c;
    }
    put_tag(out, "sup", a);
    wiki_put_char(out, '/');
    put_tag(out, "sub", b);
}

static void t_convert(const struct wiki_call *call, struct wiki_buffer *out)
{
    wiki_convert(call, call->extra[0] == 'a', out);
}

static void t_height(const struct wiki_call *call, struct wiki_buffer *out)
{
    static const char *const units[] = {"m", "cm", "ft", "in"};

    for (size_t i = 0; i < 4; i++) {
        struct wiki_span value = wiki_named(call, units[i]);

        if (value.size == 0)
            continue;
        if (out->size > 0)
            wiki_put_char(out, ' ');
        wiki_put_span(out, value);
        wiki_put_char(out, ' ');
        wiki_put_text(out, units[i]);
    }
}

/* --- Dates ------------------------------------------------------------------------------------ */

static const char *month_name(struct wiki_span month)
{
    static const char *const names[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};
    double value;
    int decimals;

    if (!wiki_number(month, &value, &decimals) || value < 1 || value > 12)
        return NULL;
    return names[(int)value - 1];
}

static void put_day(struct wiki_span day, struct wiki_buffer *out)
{
    wiki_put_span(out, day.size == 2 && day.data[0] == '0' ? wiki_span(day.data + 1, 1) : day);
}

/* call->extra "d" puts the day first regardless of the arguments. */
static void t_date(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span year = wiki_positional(call, 1), month = wiki_positional(call, 2),
                     day = wiki_positional(call, 3), df = wiki_named(call, "df");
    const char *name = month_name(month);
    int day_first = call->extra[0] == 'd' || wiki_is(df, "y") || wiki_is(df, "yes");

    if (!name && month.size > 0) {
        wiki_put_span(out, year);
        return;
    }
    if (name && day.size > 0 && day_first) {
        put_day(day, out);
        wiki_put_char(out, ' ');
    }
    if (name) {
        wiki_put_text(out, name);
        wiki_put_char(out, ' ');
    }
    if (name && day.size > 0 && !day_first) {
        put_day(day, out);
        wiki_put_text(out, ", ");
    }
    wiki_put_span(out, year);
}

static void t_as_of(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span alt = wiki_named(call, "alt");
    int lower = wiki_is(wiki_named(call, "lc"), "y") || wiki_is(wiki_named(call, "lc"), "on");
    int since = wiki_is(wiki_named(call, "since"), "y");

    if (alt.size > 0) {
        wiki_put_span(out, alt);
        return;
    }
    wiki_put_text(out, since ? (lower ? "since " : "Since ") : lower ? "as of " : "As of ");
    t_date(call, out);
}

/* --- Names ------------------------------------------------------------------------------------ */

static void t_label(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span label = wiki_named(call, "lt");

    wiki_put_span(out, label.size > 0 ? label : wiki_positional(call, 1));
}

/* {{USS|Enterprise|CVN-65}}, {{ship|USS|Enterprise|CVN-65}} */
static void t_ship(const struct wiki_call *call, struct wiki_buffer *out)
{
    size_t first = call->extra[0] ? 1 : 2;
    struct wiki_span name = wiki_positional(call, first), id = wiki_positional(call, first + 1);

    if (call->extra[0])
        wiki_put_text(out, call->extra);
    else
        wiki_put_span(out, wiki_positional(call, 1));
    if (out->size > 0)
        wiki_put_char(out, ' ');
    wiki_put_span(out, name);
    if (id.size > 0) {
        wiki_put_text(out, " (");
        wiki_put_span(out, id);
        wiki_put_char(out, ')');
    }
}

static void t_music(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span sign = wiki_positional(call, 1);

    wiki_put_text(out, wiki_is(sign, "sharp") || wiki_is(sign, "#")  ? "\xe2\x99\xaf"
                       : wiki_is(sign, "flat") || wiki_is(sign, "b") ? "\xe2\x99\xad"
                       : wiki_is(sign, "natural")                    ? "\xe2\x99\xae"
                                                                     : "");
}

static const struct row {
    const char *names; /* in lower case, with a bar after each */
    handler *call;
    const char *extra;
} rows[] = {
    {"convert|", t_convert, ""},
    {"cvt|convinfobox|", t_convert, "a"},
    {"lang|rtl-lang|script|resize|color|font color|", t_argument, "2"},
    {"langx|", t_langx, ""},
    {"transl|transliteration|translit|", t_transl, ""},
    {"hebrew|nihongo2|nihongo foot|ipa|ipa-all|chem2|nowrap|nobr|nobreak|small|"
     "smaller|big|larger|strong|em|var|mvar|math|bigmath|smallcaps|sc|sc2|uc|code|"
     "mono|kbd|samp|tq|not a typo|typo|proper name|as written|visible anchor|vanchor|"
     "abbr|abbrlink|tooltip|unicode|polytonic|num|nts|birth-date|death-date|date|dts|"
     "prime|plainlist|flatlist|flag|flagu|flagcountry|url|ruby|angbr|ordinal|pron|",
     t_argument, "1"},
    {"nihongo|", t_nihongo, ""},
    {"nihongo3|", t_nihongo, "3"},
    {"zh|", t_zh, ""},
    {"ipac-en|", t_ipac, ""},
    {"chem|chemf|linktext|gaps|", t_join, ""},
    {"sub|", t_tag, "sub"},
    {"sup|", t_tag, "sup"},
    {"key press|keypress|", t_join, "+"},
    {"sic|", t_text, "[sic]"},
    {"ill|interlanguage link|ill2|", t_label, ""},
    {"okina|", t_text, "\xca\xbb"},
    {"hamza|", t_text, "\xca\xbe"},
    {"ayin|", t_text, "\xca\xbf"},
    {"val|", t_val, ""},
    {"ntsh|", t_text, ""},
    {"e|", t_argument,
     "1\xc3\x97"
     "10^"},
    {"frac|sfrac|fraction|", t_fraction, ""},
    {"height|", t_height, ""},
    {"us$|usd|", t_argument, "1US$"},
    {"a$|", t_argument, "1A$"},
    {"c$|", t_argument, "1C$"},
    {"nz$|", t_argument, "1NZ$"},
    {"gbp|\xc2\xa3|pound|", t_argument, "1\xc2\xa3"},
    {"eur|euro|\xe2\x82\xac|", t_argument, "1\xe2\x82\xac"},
    {"jpy|\xc2\xa5|", t_argument, "1\xc2\xa5"},
    {"inr|indian rupee|", t_argument, "1\xe2\x82\xb9"},
    {"birth date|birth date and age|bda|death date|death date and age|dda|start date|"
     "start date and age|end date|film date|",
     t_date, ""},
    {"as of|asof|", t_as_of, "d"},
    {"circa|c.|ca.|", t_argument, "1c. "},
    {"floruit|fl.|", t_argument, "1fl. "},
    {"reign|r.|", t_join, "\xe2\x80\x93"},
    {"'s|", t_text, "'s"},
    {"'|-'|", t_text, "'"},
    {"ndash|en dash|\xe2\x80\x93|", t_text, "\xe2\x80\x93"},
    {"mdash|em dash|", t_text, "\xe2\x80\x94"},
    {"spaced ndash|spaced en dash|snd|snds|spnd|", t_text, " \xe2\x80\x93 "},
    {"spaced mdash|", t_text, " \xe2\x80\x94 "},
    {"nbsp|space|thinspace|thinsp|hairspace|", t_text, " "},
    {"\xc2\xb7|middot|dot|", t_text, " \xc2\xb7 "},
    {"bull|\xe2\x80\xa2|", t_text, " \xe2\x80\xa2 "},
    {"pipe|", t_text, "&#124;"},
    {"times|", t_text, "\xc3\x97"},
    {"minus|", t_text, "\xe2\x88\x92"},
    {"yes|", t_text, "Yes"},
    {"no|", t_text, "No"},
    {"quote|blockquote|quotation|cquote|quote box|poem quote|poemquote|", t_block, ""},
    {"hlist|ubl|unbulleted list|", t_join, ", "},
    {"uss|", t_ship, "USS"},
    {"hms|", t_ship, "HMS"},
    {"hmas|", t_ship, "HMAS"},
    {"hmcs|", t_ship, "HMCS"},
    {"ss|", t_ship, "SS"},
    {"rms|", t_ship, "RMS"},
    {"ship|", t_ship, ""},
    {"sclass|", t_join, "-class "},
    {"music|", t_music, ""},
    {"isbn|", t_argument, "1ISBN "},
    {"bracket|", t_argument, "1["},
};

enum { NAMES = 256 };
static struct name {
    struct wiki_span text;
    const struct row *row;
} names[NAMES];
static size_t name_count;

static int compare_names(const void *a, const void *b)
{
    const struct wiki_span *left = a, *right = b; /* the first member */
    size_t shorter = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->data, right->data, shorter);

    return order ? order : (left->size > right->size) - (left->size < right->size);
}

static void sort_names(void)
{
    for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++)
        for (const char *at = row->names, *bar; (bar = strchr(at, '|')); at = bar + 1)
            names[name_count++] = (struct name){wiki_span(at, (size_t)(bar - at)), row};
    qsort(names, name_count, sizeof(names[0]), compare_names);
}

int wiki_template(struct wiki_call *call, struct wiki_buffer *out)
{
    static pthread_once_t sorted = PTHREAD_ONCE_INIT;
    struct wiki_span name = call->name;
    const struct name *found;
    char lower[32];

    if (name.size >= sizeof(lower))
        return 0;
    for (size_t i = 0; i < name.size; i++)
        lower[i] = name.data[i] == '_' ? ' ' : wiki_lower(name.data[i]);
    name.data = lower;
    pthread_once(&sorted, sort_names);
    found = bsearch(&name, names, name_count, sizeof(names[0]), compare_names);
    if (found) {
        call->extra = found->row->extra;
        found->row->call(call, out);
        return 1;
    }
    if (name.size > 5 && memcmp(lower, "lang-", 5) == 0) {
        put_language(call, wiki_span(lower + 5, name.size - 5), out);
        return 1;
    }
    if (name.size > 4 && memcmp(lower, "ipa-", 4) == 0) {
        wiki_put_char(out, '[');
        wiki_put_span(out, wiki_positional(call, 1));
        wiki_put_char(out, ']');
        return 1;
    }
    return 0;
}

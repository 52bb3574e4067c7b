/* SPDX-License-Identifier: Apache-2.0 */
/* The most frequent inline templates of running text, without the wiki's own definitions. All
 * others (boxes, navigation, citations, maintenance) are dropped. */
#include "config.h"
#include "wiki_expand.h"

#include <stdio.h>
#include <stdlib.h>

static void put(struct wiki_buffer *out, struct wiki_span span)
{
    wiki_put(out, span.data, span.size);
}

typedef void handler(const struct wiki_call *call, const char *extra, struct wiki_buffer *out);

/* extra: index of the argument, and the text before it. */
static void t_argument(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span value = wiki_positional(call, (size_t)(extra[0] - '0'));

    if (value.size == 0 && extra[0] == '1')
        value = wiki_named(call, "text");
    if (value.size == 0)
        return;
    wiki_put_text(out, extra + 1);
    put(out, value);
}

static void put_tag(struct wiki_buffer *out, const char *name, struct wiki_span text)
{
    wiki_put_char(out, '<');
    wiki_put_text(out, name);
    wiki_put_char(out, '>');
    put(out, text);
    wiki_put_text(out, "</");
    wiki_put_text(out, name);
    wiki_put_char(out, '>');
}

static void t_tag(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    put_tag(out, extra, wiki_positional(call, 1));
}

static void t_text(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    (void)call;
    wiki_put_text(out, extra);
}

/* Write all positional arguments with 'extra' between them. */
static void t_join(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    for (size_t i = 1; i <= call->count; i++) {
        struct wiki_span value = wiki_positional(call, i);

        if (value.size == 0)
            continue;
        if (i > 1 && out->size > 0)
            wiki_put_text(out, extra);
        put(out, value);
    }
}

static void t_block(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span text = wiki_positional(call, 1), author = wiki_positional(call, 2);

    (void)extra;
    if (text.size == 0)
        text = wiki_named(call, "text");
    if (text.size == 0)
        text = wiki_named(call, "quote");
    if (author.size == 0)
        author = wiki_named(call, "author");
    if (text.size == 0)
        return;
    wiki_put_char(out, '\n');
    put(out, text);
    if (author.size > 0) {
        wiki_put_text(out, " \xe2\x80\x94 ");
        put(out, author);
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
    put(out, text);
}

/* {{langx|de|Wort}} */
static void t_langx(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    const char *name = language(wiki_positional(call, 1));

    (void)extra;
    if (name) {
        wiki_put_text(out, name);
        wiki_put_text(out, ": ");
    }
    put(out, wiki_positional(call, 2));
}

/* {{transl|ar|DIN|text}} or {{transl|ar|text}}. */
static void t_transl(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span third = wiki_positional(call, 3);

    (void)extra;
    put(out, third.size > 0 ? third : wiki_positional(call, 2));
}

/* {{nihongo|English|kanji|romaji|extra|extra2}} */
static void t_nihongo(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    static const int orders[2][3] = {{1, 2, 3}, {3, 2, 1}};
    const int *order = orders[extra[0] == '3'];
    struct wiki_span word = wiki_positional(call, (size_t)order[0]), more;
    int inside = 0;

    put(out, word);
    for (size_t i = 1; i < 4; i++) {
        more = wiki_positional(call, i < 3 ? (size_t)order[i] : 4);
        if (more.size == 0)
            continue;
        wiki_put_text(out, inside++ ? ", " : word.size > 0 ? " (" : "(");
        put(out, more);
    }
    if (inside)
        wiki_put_char(out, ')');
    more = wiki_positional(call, 5);
    if (more.size > 0) {
        wiki_put_char(out, ' ');
        put(out, more);
    }
}

/* {{zh|c=...|p=...}} */
static void t_zh(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    static const char *const rows[][2] = {
        {"c", "Chinese: "}, {"s", "simplified Chinese: "},    {"t", "traditional Chinese: "},
        {"p", "pinyin: "},  {"w", "Wade\xe2\x80\x93Giles: "}, {"l", "lit. "}};

    (void)extra;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wiki_span value = wiki_named(call, rows[i][0]);

        if (value.size == 0)
            continue;
        if (out->size > 0)
            wiki_put_text(out, "; ");
        wiki_put_text(out, rows[i][1]);
        put(out, value);
    }
}

/* {{IPAc-en|ˈ|ɒ|r|ɪ|n}} */
static void t_ipac(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    (void)extra;
    wiki_put_char(out, '/');
    for (size_t i = 1; i <= call->count; i++) {
        struct wiki_span value = wiki_positional(call, i);

        if (wiki_is(value, "lang") || wiki_is(value, "pron") || wiki_is(value, "local"))
            continue;
        if (wiki_is(value, "_"))
            wiki_put_char(out, ' ');
        else
            put(out, value);
    }
    wiki_put_char(out, '/');
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static void t_val(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span error = wiki_positional(call, 2), exponent = wiki_named(call, "e");
    struct wiki_span unit = wiki_named(call, "u");

    (void)extra;
    put(out, wiki_named(call, "p"));
    wiki_format_number(wiki_positional(call, 1), out);
    if (error.size > 0) {
        wiki_put_text(out, "\xc2\xb1");
        put(out, error);
    }
    if (exponent.size > 0) {
        wiki_put_text(out, "\xc3\x97"
                           "10^");
        put(out, exponent);
    }
    if (unit.size == 0)
        unit = wiki_named(call, "ul");
    if (unit.size > 0) {
        wiki_put_char(out, ' ');
        put(out, unit);
    }
    put(out, wiki_named(call, "s"));
}

static void t_fraction(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span a = wiki_positional(call, 1), b = wiki_positional(call, 2),
                     c = wiki_positional(call, 3);

    (void)extra;
    if (b.size == 0) {
        b = a;
        a = wiki_span("1", 1);
    }
    if (c.size > 0) {
        put(out, a);
        wiki_put_char(out, ' ');
        a = b;
        b = c;
    }
    put_tag(out, "sup", a);
    wiki_put_char(out, '/');
    put_tag(out, "sub", b);
}

static void t_convert(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    wiki_convert(call, extra[0] == 'a', out);
}

static void t_height(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    static const char *const units[] = {"m", "cm", "ft", "in"};

    (void)extra;
    for (size_t i = 0; i < 4; i++) {
        struct wiki_span value = wiki_named(call, units[i]);

        if (value.size == 0)
            continue;
        if (out->size > 0)
            wiki_put_char(out, ' ');
        put(out, value);
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
    put(out, day.size == 2 && day.data[0] == '0' ? wiki_span(day.data + 1, 1) : day);
}

/* extra: "d" puts the day first regardless of the arguments. */
static void t_date(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span year = wiki_positional(call, 1), month = wiki_positional(call, 2),
                     day = wiki_positional(call, 3), df = wiki_named(call, "df");
    const char *name = month_name(month);
    int day_first = extra[0] == 'd' || wiki_is(df, "y") || wiki_is(df, "yes");

    if (!name && month.size > 0) {
        put(out, year);
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
    put(out, year);
}

static void t_as_of(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span alt = wiki_named(call, "alt");
    int lower = wiki_is(wiki_named(call, "lc"), "y") || wiki_is(wiki_named(call, "lc"), "on");
    int since = wiki_is(wiki_named(call, "since"), "y");

    (void)extra;
    if (alt.size > 0) {
        put(out, alt);
        return;
    }
    wiki_put_text(out, since ? (lower ? "since " : "Since ") : lower ? "as of " : "As of ");
    t_date(call, "d", out);
}

/* --- Names ------------------------------------------------------------------------------------ */

static void t_label(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span label = wiki_named(call, "lt");

    (void)extra;
    put(out, label.size > 0 ? label : wiki_positional(call, 1));
}

/* {{USS|Enterprise|CVN-65}}, {{ship|USS|Enterprise|CVN-65}} */
static void t_ship(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    size_t first = extra[0] ? 1 : 2;
    struct wiki_span name = wiki_positional(call, first), id = wiki_positional(call, first + 1);

    if (extra[0])
        wiki_put_text(out, extra);
    else
        put(out, wiki_positional(call, 1));
    if (out->size > 0)
        wiki_put_char(out, ' ');
    put(out, name);
    if (id.size > 0) {
        wiki_put_text(out, " (");
        put(out, id);
        wiki_put_char(out, ')');
    }
}

static void t_music(const struct wiki_call *call, const char *extra, struct wiki_buffer *out)
{
    struct wiki_span sign = wiki_positional(call, 1);

    (void)extra;
    wiki_put_text(out, wiki_is(sign, "sharp") || wiki_is(sign, "#")  ? "\xe2\x99\xaf"
                       : wiki_is(sign, "flat") || wiki_is(sign, "b") ? "\xe2\x99\xad"
                       : wiki_is(sign, "natural")                    ? "\xe2\x99\xae"
                                                                     : "");
}

static const struct row {
    const char *name; /* in lower case */
    handler *call;
    const char *extra;
} rows[] = {
    {"convert", t_convert, ""},
    {"cvt", t_convert, "a"},
    {"convinfobox", t_convert, "a"},
    {"lang", t_argument, "2"},
    {"langx", t_langx, ""},
    {"rtl-lang", t_argument, "2"},
    {"transl", t_transl, ""},
    {"transliteration", t_transl, ""},
    {"translit", t_transl, ""},
    {"script", t_argument, "2"},
    {"hebrew", t_argument, "1"},
    {"nihongo", t_nihongo, ""},
    {"nihongo2", t_argument, "1"},
    {"nihongo3", t_nihongo, "3"},
    {"nihongo foot", t_argument, "1"},
    {"zh", t_zh, ""},
    {"ipa", t_argument, "1"},
    {"ipac-en", t_ipac, ""},
    {"ipa-all", t_argument, "1"},
    {"chem", t_join, ""},
    {"chem2", t_argument, "1"},
    {"chemf", t_join, ""},
    {"nowrap", t_argument, "1"},
    {"nobr", t_argument, "1"},
    {"nobreak", t_argument, "1"},
    {"small", t_argument, "1"},
    {"smaller", t_argument, "1"},
    {"big", t_argument, "1"},
    {"larger", t_argument, "1"},
    {"resize", t_argument, "2"},
    {"strong", t_argument, "1"},
    {"em", t_argument, "1"},
    {"var", t_argument, "1"},
    {"mvar", t_argument, "1"},
    {"math", t_argument, "1"},
    {"bigmath", t_argument, "1"},
    {"sub", t_tag, "sub"},
    {"sup", t_tag, "sup"},
    {"smallcaps", t_argument, "1"},
    {"sc", t_argument, "1"},
    {"sc2", t_argument, "1"},
    {"uc", t_argument, "1"},
    {"color", t_argument, "2"},
    {"font color", t_argument, "2"},
    {"code", t_argument, "1"},
    {"mono", t_argument, "1"},
    {"kbd", t_argument, "1"},
    {"samp", t_argument, "1"},
    {"key press", t_join, "+"},
    {"keypress", t_join, "+"},
    {"tq", t_argument, "1"},
    {"not a typo", t_argument, "1"},
    {"typo", t_argument, "1"},
    {"proper name", t_argument, "1"},
    {"as written", t_argument, "1"},
    {"sic", t_text, "[sic]"},
    {"linktext", t_join, ""},
    {"visible anchor", t_argument, "1"},
    {"vanchor", t_argument, "1"},
    {"abbr", t_argument, "1"},
    {"abbrlink", t_argument, "1"},
    {"tooltip", t_argument, "1"},
    {"ill", t_label, ""},
    {"interlanguage link", t_label, ""},
    {"ill2", t_label, ""},
    {"unicode", t_argument, "1"},
    {"polytonic", t_argument, "1"},
    {"okina", t_text, "\xca\xbb"},
    {"hamza", t_text, "\xca\xbe"},
    {"ayin", t_text, "\xca\xbf"},
    {"val", t_val, ""},
    {"gaps", t_join, ""},
    {"num", t_argument, "1"},
    {"nts", t_argument, "1"},
    {"ntsh", t_text, ""},
    {"e", t_argument,
     "1\xc3\x97"
     "10^"},
    {"frac", t_fraction, ""},
    {"sfrac", t_fraction, ""},
    {"fraction", t_fraction, ""},
    {"height", t_height, ""},
    {"us$", t_argument, "1US$"},
    {"usd", t_argument, "1US$"},
    {"a$", t_argument, "1A$"},
    {"c$", t_argument, "1C$"},
    {"nz$", t_argument, "1NZ$"},
    {"gbp", t_argument, "1\xc2\xa3"},
    {"\xc2\xa3", t_argument, "1\xc2\xa3"},
    {"pound", t_argument, "1\xc2\xa3"},
    {"eur", t_argument, "1\xe2\x82\xac"},
    {"euro", t_argument, "1\xe2\x82\xac"},
    {"\xe2\x82\xac", t_argument, "1\xe2\x82\xac"},
    {"jpy", t_argument, "1\xc2\xa5"},
    {"\xc2\xa5", t_argument, "1\xc2\xa5"},
    {"inr", t_argument, "1\xe2\x82\xb9"},
    {"indian rupee", t_argument, "1\xe2\x82\xb9"},
    {"birth date", t_date, ""},
    {"birth date and age", t_date, ""},
    {"bda", t_date, ""},
    {"birth-date", t_argument, "1"},
    {"death date", t_date, ""},
    {"death date and age", t_date, ""},
    {"dda", t_date, ""},
    {"death-date", t_argument, "1"},
    {"start date", t_date, ""},
    {"start date and age", t_date, ""},
    {"end date", t_date, ""},
    {"film date", t_date, ""},
    {"date", t_argument, "1"},
    {"dts", t_argument, "1"},
    {"as of", t_as_of, ""},
    {"asof", t_as_of, ""},
    {"circa", t_argument, "1c. "},
    {"c.", t_argument, "1c. "},
    {"ca.", t_argument, "1c. "},
    {"floruit", t_argument, "1fl. "},
    {"fl.", t_argument, "1fl. "},
    {"reign", t_join, "\xe2\x80\x93"},
    {"r.", t_join, "\xe2\x80\x93"},
    {"'s", t_text, "'s"},
    {"'", t_text, "'"},
    {"-'", t_text, "'"},
    {"ndash", t_text, "\xe2\x80\x93"},
    {"en dash", t_text, "\xe2\x80\x93"},
    {"\xe2\x80\x93", t_text, "\xe2\x80\x93"},
    {"mdash", t_text, "\xe2\x80\x94"},
    {"em dash", t_text, "\xe2\x80\x94"},
    {"spaced ndash", t_text, " \xe2\x80\x93 "},
    {"spaced en dash", t_text, " \xe2\x80\x93 "},
    {"snd", t_text, " \xe2\x80\x93 "},
    {"snds", t_text, " \xe2\x80\x93 "},
    {"spnd", t_text, " \xe2\x80\x93 "},
    {"spaced mdash", t_text, " \xe2\x80\x94 "},
    {"nbsp", t_text, " "},
    {"space", t_text, " "},
    {"thinspace", t_text, " "},
    {"thinsp", t_text, " "},
    {"hairspace", t_text, " "},
    {"\xc2\xb7", t_text, " \xc2\xb7 "},
    {"middot", t_text, " \xc2\xb7 "},
    {"dot", t_text, " \xc2\xb7 "},
    {"bull", t_text, " \xe2\x80\xa2 "},
    {"\xe2\x80\xa2", t_text, " \xe2\x80\xa2 "},
    {"pipe", t_text, "&#124;"},
    {"times", t_text, "\xc3\x97"},
    {"minus", t_text, "\xe2\x88\x92"},
    {"prime", t_argument, "1"},
    {"yes", t_text, "Yes"},
    {"no", t_text, "No"},
    {"quote", t_block, ""},
    {"blockquote", t_block, ""},
    {"quotation", t_block, ""},
    {"cquote", t_block, ""},
    {"quote box", t_block, ""},
    {"poem quote", t_block, ""},
    {"poemquote", t_block, ""},
    {"hlist", t_join, ", "},
    {"ubl", t_join, ", "},
    {"unbulleted list", t_join, ", "},
    {"plainlist", t_argument, "1"},
    {"flatlist", t_argument, "1"},
    {"flag", t_argument, "1"},
    {"flagu", t_argument, "1"},
    {"flagcountry", t_argument, "1"},
    {"url", t_argument, "1"},
    {"uss", t_ship, "USS"},
    {"hms", t_ship, "HMS"},
    {"hmas", t_ship, "HMAS"},
    {"hmcs", t_ship, "HMCS"},
    {"ss", t_ship, "SS"},
    {"rms", t_ship, "RMS"},
    {"ship", t_ship, ""},
    {"sclass", t_join, "-class "},
    {"music", t_music, ""},
    {"isbn", t_argument, "1ISBN "},
    {"ruby", t_argument, "1"},
    {"angbr", t_argument, "1"},
    {"bracket", t_argument, "1["},
    {"ordinal", t_argument, "1"},
    {"pron", t_argument, "1"},
};

int wiki_template(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span name = call->name;
    char lower[32];

    if (name.size >= sizeof(lower))
        return 0;
    for (size_t i = 0; i < name.size; i++)
        lower[i] = name.data[i] == '_' ? ' ' : wiki_lower(name.data[i]);
    name.data = lower;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].name[0] == lower[0] && wiki_is(name, rows[i].name)) {
            rows[i].call(call, rows[i].extra, out);
            return 1;
        }
    if (name.size > 5 && memcmp(lower, "lang-", 5) == 0) {
        put_language(call, wiki_span(lower + 5, name.size - 5), out);
        return 1;
    }
    if (name.size > 4 && memcmp(lower, "ipa-", 4) == 0) {
        wiki_put_char(out, '[');
        put(out, wiki_positional(call, 1));
        wiki_put_char(out, ']');
        return 1;
    }
    return 0;
}

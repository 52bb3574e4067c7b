/* SPDX-License-Identifier: Apache-2.0 */
/* Parser functions and variables: {{#if: a | b}}, {{lc:A}}, {{PAGENAME}}. */
#include "config.h"
#include "wiki_expand.h"
#include "wiki_site.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static struct wiki_span argument(const struct wiki_call *call, size_t number)
{
    return number < call->count ? wiki_trim(call->args[number]) : wiki_span("", 0);
}

static bool same(struct wiki_span a, struct wiki_span b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

int wiki_number(struct wiki_span text, double *value, int *decimals)
{
    char digits[64];
    size_t size = 0, i = 0, zeros = 0;
    int point = 0;

    *decimals = 0;
    if (text.size >= 3 && memcmp(text.data, "\xe2\x88\x92", 3) == 0) {
        digits[size++] = '-';
        i = 3;
    }
    for (; i < text.size && size + 1 < sizeof(digits); i++) {
        char c = text.data[i];

        if (c == ',' && size > 0)
            continue;
        if (!(wiki_is_digit(c) || (c == '.' && !point) || ((c == '-' || c == '+') && !size)))
            break;
        zeros = c == '0' ? zeros + 1 : 0;
        *decimals += point;
        point |= c == '.';
        digits[size++] = c;
    }
    digits[size] = '\0';
    if (size == 0 || ((digits[0] == '-' || digits[0] == '+') && size == 1))
        return 0;
    *value = strtod(digits, NULL);
    if (!point)
        *decimals = *value == 0 ? 0 : -(int)zeros;
    return 1;
}

void wiki_format_number(struct wiki_span number, struct wiki_buffer *out)
{
    size_t whole = 0, begin = 0;

    while (begin < number.size && !wiki_is_digit(number.data[begin]))
        wiki_put_char(out, number.data[begin++]);
    while (begin + whole < number.size && number.data[begin + whole] >= '0' &&
           number.data[begin + whole] <= '9')
        whole++;
    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % 3 == 0)
            wiki_put_char(out, ',');
        wiki_put_char(out, number.data[begin + i]);
    }
    wiki_put(out, number.data + begin + whole, number.size - begin - whole);
}

static void put_number(const struct wiki_call *call, double value, int fraction,
                       struct wiki_buffer *out)
{
    char text[64];

    snprintf(text, sizeof(text), "%.14g", value);
    wiki_put_text(out, text);
    if (call->mode == WIKI_EXPAND_FUNCTIONS && fraction && !strpbrk(text, ".e"))
        wiki_put_text(out, ".0");
}

/* Each function receives the trimmed text after the colon, and the call with the other
 * arguments. */
typedef void function(const struct wiki_call *call, struct wiki_span first,
                      struct wiki_buffer *out);

static void f_if(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    wiki_put_span(out, argument(call, first.size == 0));
}

static bool is_numeric(struct wiki_span text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!strchr("0123456789.+-", text.data[i]) || text.data[i] == '\0')
            return false;
    return text.size > 0 && text.size < 20;
}

static void f_ifeq(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    struct wiki_span second = argument(call, 0);
    double a, b;
    int decimals, equal = same(first, second);

    if (!equal && is_numeric(first) && is_numeric(second) && wiki_number(first, &a, &decimals) &&
        wiki_number(second, &b, &decimals))
        equal = a == b;
    wiki_put_span(out, argument(call, equal ? 1 : 2));
}

static void f_switch(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    struct wiki_span fallback = wiki_span("", 0);
    int falling = 0;

    for (size_t i = 0; i < call->count; i++) {
        struct wiki_span arg = call->args[i], whole = wiki_trim(arg), name, value;
        const char *equals = memchr(arg.data, '=', arg.size);

        if (!equals) {
            falling |= same(whole, first);
            /* The last unnamed one is the default. */
            if (i + 1 == call->count && call->mode == WIKI_EXPAND_ALL)
                fallback = whole;
            continue;
        }
        name = wiki_trimmed(arg.data, equals);
        value = wiki_trimmed(equals + 1, arg.data + arg.size);
        if (falling || same(name, first)) {
            wiki_put_span(out, value);
            return;
        }
        if (wiki_is(name, "#default"))
            fallback = value;
    }
    wiki_put_span(out, fallback);
}

static void f_expr(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    double value;
    int fraction;

    if (wiki_expression(first, &value, &fraction) == 0)
        put_number(call, value, fraction, out);
}

static void f_ifexpr(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    double value = 0;
    int fraction, rc = first.size == 0 ? 0 : wiki_expression(first, &value, &fraction);

    if (rc == 0 && call->mode == WIKI_EXPAND_ALL)
        wiki_put_span(out, argument(call, value == 0));
}

/* {{lc:}}, {{uc:}}, {{lcfirst:}} and {{ucfirst:}} */
static void f_case(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    const char *name = call->name.data;
    bool upper = wiki_lower(name[0]) == 'u';
    size_t changed = wiki_lower(name[2]) == 'f' ? first.size > 0 : first.size;

    for (size_t i = 0; i < changed; i++) {
        char c = wiki_lower(first.data[i]);

        wiki_put_char(out, upper && wiki_is_letter(c) ? (char)(c - 32) : upper ? first.data[i] : c);
    }
    wiki_put(out, first.data + changed, first.size - changed);
}

static void f_pad(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    struct wiki_span fill = argument(call, 1);
    double width = 0;
    int decimals, left = wiki_lower(call->name.data[3]) == 'l';
    size_t missing;

    for (size_t i = 0; i < fill.size; i++)
        if ((unsigned char)fill.data[i] >= 0x80) /* would be cut inside a character */
            fill.size = 0;
    if (fill.size == 0)
        fill = wiki_span("0", 1);
    wiki_number(argument(call, 0), &width, &decimals);
    missing = width > (double)first.size && width <= 500 ? (size_t)width - first.size : 0;
    if (!left)
        wiki_put_span(out, first);
    for (size_t i = 0; i < missing; i++)
        wiki_put_char(out, fill.data[i % fill.size]);
    if (left)
        wiki_put_span(out, first);
}

static void f_formatnum(const struct wiki_call *call, struct wiki_span first,
                        struct wiki_buffer *out)
{
    if (!wiki_is(argument(call, 0), "r")) {
        wiki_format_number(first, out);
        return;
    }
    for (size_t i = 0; i < first.size; i++)
        if (first.data[i] != ',')
            wiki_put_char(out, first.data[i]);
}

static void f_urlencode(const struct wiki_call *call, struct wiki_span first,
                        struct wiki_buffer *out)
{
    (void)call;
    for (size_t i = 0; i < first.size; i++) {
        char c = first.data[i], text[8];

        snprintf(text, sizeof(text), "%%%02X", (unsigned char)c);
        if (wiki_is_letter(c) || wiki_is_digit(c) || c == '-' || c == '_' || c == '.')
            wiki_put_char(out, c);
        else
            wiki_put_text(out, text);
    }
}

static void f_plural(const struct wiki_call *call, struct wiki_span first, struct wiki_buffer *out)
{
    double value = 0;
    int decimals;

    if (call->mode != WIKI_EXPAND_ALL)
        return;
    wiki_number(first, &value, &decimals);
    wiki_put_span(out, argument(call, value == 1 ? 0 : call->count > 1));
}

static const struct {
    const char *name; /* in lower case */
    function *call;   /* NULL: becomes nothing */
} functions[] = {
    {"#if", f_if},
    {"#ifeq", f_ifeq},
    {"#switch", f_switch},
    {"#expr", f_expr},
    {"#ifexpr", f_ifexpr},
    {"lc", f_case},
    {"uc", f_case},
    {"ucfirst", f_case},
    {"lcfirst", f_case},
    {"padleft", f_pad},
    {"padright", f_pad},
    {"formatnum", f_formatnum},
    {"urlencode", f_urlencode},
    {"plural", f_plural},
    {"defaultsort", NULL},
    {"displaytitle", NULL},
    {"shortdesc", NULL},
    {"int", NULL},
    {"ns", NULL},
    {"fullurl", NULL},
    {"localurl", NULL},
    {"anchorencode", NULL},
    {"gender", NULL},
    {"grammar", NULL},
};

/* Variables about the page. */
static int variable(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span title = call->page->title, name = call->name;
    const char *slash = title.size ? memrchr(title.data, '/', title.size) : NULL;

    if (wiki_is(name, "!"))
        wiki_put_char(out, '|');
    else if (wiki_is(name, "=") && call->mode == WIKI_EXPAND_ALL)
        wiki_put_char(out, '=');
    else if (wiki_is(name, "pagename") || wiki_is(name, "fullpagename"))
        wiki_put_span(out, title);
    else if (wiki_is(name, "subpagename") && call->mode == WIKI_EXPAND_ALL)
        wiki_put_span(out, slash
                               ? wiki_span(slash + 1, (size_t)(title.data + title.size - slash - 1))
                               : title);
    else if (wiki_is(name, "basepagename") && call->mode == WIKI_EXPAND_ALL)
        wiki_put_span(out, slash ? wiki_span(title.data, (size_t)(slash - title.data)) : title);
    else if (wiki_is(name, "sitename") && call->mode == WIKI_EXPAND_ALL)
        wiki_put_text(out, call->page->site ? call->page->site->name : "");
    else
        return 0;
    return 1;
}

int wiki_function(const struct wiki_call *call, struct wiki_buffer *out)
{
    struct wiki_span name = call->name, first;
    const char *colon = name.size ? memchr(name.data, ':', name.size) : NULL;

    if (!colon)
        return variable(call, out);
    first = wiki_trimmed(colon + 1, name.data + name.size);
    name = wiki_trimmed(name.data, colon);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (wiki_is(name, functions[i].name)) {
            if (functions[i].call)
                functions[i].call(call, first, out);
            return 1;
        }
    /* #time, #invoke, #tag: their results are not in the dump. */
    return name.size > 0 && name.data[0] == '#';
}

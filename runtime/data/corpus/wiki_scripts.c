/* SPDX-License-Identifier: Apache-2.0 */
/* Exponents, indices and fractions: <sup> and <sub> that change the meaning of a number. */
#include "config.h"
#include "wiki_inline.h"

enum { SCRIPT_MOST = 24 };

/* The text of an element, with '-' for each kind of minus. */
struct script {
    char text[SCRIPT_MOST];
    size_t size, letters, digits;
    int italic;
};

static const struct {
    const char *name;
    char character;
} spelled[] = {{"\xe2\x88\x92", '-'}, {"\xe2\x80\x93", '-'}, {"&minus;", '-'},
               {"&#8722;", '-'},      {"&ndash;", '-'},      {"&nbsp;", ' '}};

/* Read one character of an element and advance '*at'. Returns 0 for anything else. */
static char take(const char **at, const char *end)
{
    for (size_t i = 0; i < sizeof(spelled) / sizeof(spelled[0]); i++)
        if (wiki_begins(*at, end, spelled[i].name)) {
            *at += strlen(spelled[i].name);
            return spelled[i].character;
        }
    return *(*at)++;
}

/* Read digits, signs and letters up to 'close'. Returns the end, or NULL if there is anything
 * else. */
static const char *read_script(const char *at, const char *end, const char *close,
                               struct script *script)
{
    *script = (struct script){.size = 0};
    while (at < end && !wiki_begins(at, end, close)) {
        char c;

        if (wiki_begins(at, end, "''")) {
            at += 2;
            script->italic = 1;
            continue;
        }
        c = take(&at, end);
        if (c == ' ')
            continue;
        script->letters += wiki_is_letter(c);
        script->digits += wiki_is_digit(c);
        if (script->size == SCRIPT_MOST || !c ||
            !(wiki_is_letter(c) || strchr("0123456789+-=()/.,", c)))
            return NULL;
        script->text[script->size++] = c;
    }
    return at < end && script->size > 0 ? at + strlen(close) : NULL;
}

/* Write it in Unicode superscripts or subscripts. Returns 0 if one does not exist. */
static int put_small(const struct script *script, int raised, struct wiki_buffer *out)
{
    static const char characters[] = "0123456789+-=()n";

    for (size_t i = 0; i < script->size; i++)
        if (!strchr(characters, script->text[i]) || (script->text[i] == 'n' && !raised))
            return 0;
    for (size_t i = 0; i < script->size; i++) {
        uint32_t number = (uint32_t)(strchr(characters, script->text[i]) - characters);

        if (!raised)
            wiki_put_point(out, 0x2080 + number);
        else
            wiki_put_point(out, number == 1                  ? 0xb9
                                : number == 2 || number == 3 ? 0xb0 + number
                                                             : 0x2070 + number);
    }
    return 1;
}

/* Write an exponent that Unicode cannot: x^1.5, x^(2k). Ordinals (1er, 2nd) and words are not
 * exponents. */
static int put_power(const struct script *script, struct wiki_buffer *out)
{
    char last = out->size > 0 ? out->data[out->size - 1] : ' ';
    int number = script->letters == 0 && !memchr(script->text, '/', script->size);
    int variable =
        script->letters == 1 && (script->italic || strchr("kxyz", script->text[0]) != NULL);

    if (!wiki_is_letter(last) && !wiki_is_digit(last) && last != ')')
        return 0;
    if (script->letters > 2 || (script->letters == script->size && !variable))
        return 0;
    wiki_put_text(out, number || script->size == 1 ? "^" : "^(");
    wiki_put(out, script->text, script->size);
    wiki_put_text(out, number || script->size == 1 ? "" : ")");
    return 1;
}

/* Parse <sup>1</sup>/<sub>2</sub> after its first element. Returns its end, or NULL. */
static const char *take_fraction(const struct script *above, const char *at, const char *end,
                                 struct wiki_buffer *out)
{
    static const char *const slashes[] = {"/", "\xe2\x81\x84", "&frasl;"};
    struct script below;

    for (size_t i = 0; i < 3; i++) {
        const char *next = at + strlen(slashes[i]);

        if (!wiki_begins(at, end, slashes[i]) || !wiki_begins(next, end, "<sub>"))
            continue;
        next = read_script(next + 5, end, "</sub>", &below);
        if (!next || above->digits != above->size || below.digits != below.size)
            return NULL;
        if (out->size > 0 && wiki_is_digit(out->data[out->size - 1]))
            wiki_put_char(out, ' ');
        wiki_put(out, above->text, above->size);
        wiki_put_char(out, '/');
        wiki_put(out, below.text, below.size);
        return next;
    }
    return NULL;
}

const char *wiki_script(const char *at, const char *end, int raised, struct wiki_buffer *out)
{
    struct script script;
    const char *after = read_script(at, end, raised ? "</sup>" : "</sub>", &script), *fraction;

    if (!after)
        return NULL;
    if (!raised) /* H2O is plain text, but not 101<sub>2</sub> and log<sub>2</sub>8. */
        return ((out->size > 0 && wiki_is_digit(out->data[out->size - 1])) ||
                (after < end && wiki_is_digit(*after))) &&
                       put_small(&script, 0, out)
                   ? after
                   : NULL;
    fraction = take_fraction(&script, after, end, out);
    if (fraction)
        return fraction;
    return put_small(&script, 1, out) || put_power(&script, out) ? after : NULL;
}

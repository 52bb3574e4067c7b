/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates {{#expr:}}, with the operators of MediaWiki's ParserFunctions, by precedence
 * climbing. */
#include "config.h"
#include "wiki_expand.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Limit on nested parentheses and signs: anything deeper is not an expression. */
enum { DEPTH = 50 };

struct reader {
    const char *at, *end;
    int depth, fraction;
};

struct operator
{
    const char *name;
    int level;
    char code;
};

static const struct operator operators[] = {
    {"<=", 2, 'l'},  {">=", 2, 'g'},  {"<>", 2, 'n'}, {"!=", 2, 'n'},    {"=", 2, '='},
    {"<", 2, '<'},   {">", 2, '>'},   {"+", 4, '+'},  {"-", 4, '-'},     {"**", 0, 0},
    {"*", 5, '*'},   {"/", 5, '/'},   {"^", 6, '^'},  {"round", 3, 'r'}, {"mod", 5, 'm'},
    {"div", 5, '/'}, {"and", 1, '&'}, {"or", 0, '|'}, {"e", 7, 'e'}};

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && wiki_is_space(*reader->at))
        reader->at++;
}

/* Skip the given text if it comes next, as a whole word if it is one. */
static int accept(struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    if (!wiki_begins(reader->at, reader->end, text) ||
        (wiki_is_letter(text[0]) && reader->at + length < reader->end &&
         wiki_is_letter(reader->at[length])))
        return 0;
    reader->at += length;
    return 1;
}

static int binary(struct reader *reader, int level, double *value);

static int number(struct reader *reader, double *value)
{
    char digits[64];
    size_t size = 0;

    while (reader->at < reader->end && size + 1 < sizeof(digits) &&
           (wiki_is_digit(*reader->at) || *reader->at == '.'))
        digits[size++] = *reader->at++;
    digits[size] = '\0';
    *value = strtod(digits, NULL);
    return size > 0 ? 0 : -1;
}

static int function(struct reader *reader, double *value)
{
    static const struct {
        const char *name;
        double (*call)(double);
    } functions[] = {{"abs", fabs},  {"floor", floor}, {"ceil", ceil}, {"trunc", trunc},
                     {"sqrt", sqrt}, {"exp", exp},     {"ln", log},    {"sin", sin},
                     {"cos", cos},   {"tan", tan},     {"asin", asin}, {"acos", acos},
                     {"atan", atan}};

    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (accept(reader, functions[i].name)) {
            if (binary(reader, 8, value) < 0)
                return -1;
            *value = functions[i].call(*value);
            return isfinite(*value) ? 0 : -1;
        }
    return -1;
}

static int primary(struct reader *reader, double *value)
{
    int rc;

    skip_space(reader);
    if (++reader->depth > DEPTH)
        return -1;
    if (accept(reader, "(")) {
        rc = binary(reader, 0, value);
        skip_space(reader);
        rc = rc == 0 && accept(reader, ")") ? 0 : -1;
    } else if (accept(reader, "-")) {
        rc = binary(reader, 8, value);
        *value = -*value;
    } else if (accept(reader, "+")) {
        rc = binary(reader, 8, value);
    } else if (accept(reader, "not")) {
        rc = binary(reader, 8, value);
        *value = *value == 0;
    } else if (accept(reader, "pi")) {
        *value = 3.14159265358979323846;
        rc = 0;
    } else if (reader->at < reader->end && wiki_is_letter(*reader->at)) {
        rc = function(reader, value);
    } else {
        rc = number(reader, value);
    }
    reader->depth--;
    return rc;
}

static int apply(struct reader *reader, char code, double *left, double right)
{
    double scale;

    switch (code) {
    case 'l':
        *left = *left <= right;
        return 0;
    case 'g':
        *left = *left >= right;
        return 0;
    case 'n':
        *left = *left != right;
        return 0;
    case '=':
        *left = *left == right;
        return 0;
    case '<':
        *left = *left < right;
        return 0;
    case '>':
        *left = *left > right;
        return 0;
    case '+':
        *left += right;
        return 0;
    case '-':
        *left -= right;
        return 0;
    case '*':
        *left *= right;
        return 0;
    case '^':
        *left = pow(*left, right);
        break;
    case 'e':
        *left *= pow(10, right);
        break;
    case '&':
        *left = *left != 0 && right != 0;
        return 0;
    case '|':
        *left = *left != 0 || right != 0;
        return 0;
    case 'm':
        if (trunc(right) == 0)
            return -1;
        *left = fmod(trunc(*left), trunc(right));
        break;
    case 'r':
        scale = pow(10, right);
        *left = round(*left * scale) / scale;
        break;
    case '/':
        if (right == 0)
            return -1;
        reader->fraction = 1;
        *left /= right;
        break;
    default:
        return -1;
    }
    return isfinite(*left) ? 0 : -1;
}

/* Parse operators of at least 'level'. */
static int binary(struct reader *reader, int level, double *value)
{
    double right = 0;

    if (primary(reader, value) < 0)
        return -1;
    for (;;) {
        const struct operator* found = NULL;

        skip_space(reader);
        for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]) && !found; i++) {
            const char *before = reader->at;

            if (!accept(reader, operators[i].name))
                continue;
            found = &operators[i];
            if (found->level < level)
                reader->at = before;
        }
        if (!found || found->level < level)
            return 0;
        if (binary(reader, found->level + 1, &right) < 0 ||
            apply(reader, found->code, value, right) < 0)
            return -1;
    }
}

int wiki_expression(struct wiki_span text, double *value, int *fraction)
{
    struct reader reader = {text.data, text.data + text.size, 0, 0};

    /* Longer than any real expression. */
    if (text.size > 4096 || binary(&reader, 0, value) < 0)
        return -1;
    skip_space(&reader);
    *fraction = reader.fraction;
    return reader.at == reader.end ? 0 : -1;
}

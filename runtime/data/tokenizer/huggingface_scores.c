/* SPDX-License-Identifier: Apache-2.0 */
/* The scores of a Unigram model, to the last bit as Hugging Face's library reads them. Its parser,
 * serde_json, takes up to 19 digits as one integer, and multiplies or divides it by a power of ten:
 * two roundings, where a correct conversion has one. Of two segmentations whose scores are equal
 * but for that, the last bit chooses. */
#include "huggingface.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POWERS = 309 }; /* 10^0 to 10^308 */

struct scan {
    const char *at, *end;
};

/* --- The text of the file, which is valid JSON ----------------------------------------------- */

static char peek(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at && strchr(" \t\r\n", *scan->at))
        scan->at++;
    return scan->at < scan->end ? *scan->at : '\0';
}

/* Is this the next character? Then it is skipped. */
static int take(struct scan *scan, char wanted)
{
    int found = wanted != '\0' && peek(scan) == wanted;

    scan->at += found;
    return found;
}

static int skip_string(struct scan *scan)
{
    if (!take(scan, '"'))
        return 0;
    while (scan->at < scan->end && *scan->at != '"')
        scan->at += *scan->at == '\\' && scan->at + 1 < scan->end ? 2 : 1;
    return take(scan, '"');
}

static int skip_value(struct scan *scan)
{
    size_t depth = 0;

    do {
        char next = peek(scan);

        if (next == '"') {
            if (!skip_string(scan))
                return 0;
            continue;
        }
        depth += next == '[' || next == '{';
        if (depth == 0) { /* a number or a word */
            scan->at += strcspn(scan->at, ",]} \t\r\n");
            return next != '\0';
        }
        depth -= next == ']' || next == '}';
        if (next == '\0')
            return 0;
        scan->at++;
    } while (depth > 0);
    return 1;
}

/* Go to the value of a member of the object that comes next. */
static int enter_member(struct scan *scan, const char *name)
{
    size_t length = strlen(name);

    if (!take(scan, '{'))
        return 0;
    do {
        const char *key;
        int same;

        if (peek(scan) != '"')
            return 0;
        key = scan->at + 1;
        if (!skip_string(scan))
            return 0;
        same = (size_t)(scan->at - key) == length + 1 && memcmp(key, name, length) == 0;
        if (!take(scan, ':'))
            return 0;
        if (same)
            return 1;
    } while (skip_value(scan) && take(scan, ','));
    return 0;
}

/* --- Numbers --------------------------------------------------------------------------------- */

static int is_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

/* Append the digits that come next as far as they fit. Returns how many were appended; '*more' of
 * them were not. */
static int take_digits(struct scan *scan, uint64_t *number, int *more)
{
    int count = 0;

    for (*more = 0; is_digit(scan); scan->at++) {
        uint64_t digit = (uint64_t)(*scan->at - '0');

        if (*more > 0 || *number > (UINT64_MAX - digit) / 10) {
            *more += *more < POWERS;
        } else {
            *number = *number * 10 + digit;
            count++;
        }
    }
    return count;
}

static int take_exponent(struct scan *scan)
{
    int negative = 0, exponent = 0;

    if (scan->at == scan->end || (*scan->at != 'e' && *scan->at != 'E'))
        return 0;
    scan->at++;
    if (scan->at < scan->end && (*scan->at == '-' || *scan->at == '+'))
        negative = *scan->at++ == '-';
    for (; is_digit(scan); scan->at++)
        if (exponent < 100000)
            exponent = exponent * 10 + (*scan->at - '0');
    return negative ? -exponent : exponent;
}

static double scale(uint64_t number, int exponent, const double powers[POWERS])
{
    double value = (double)number;

    for (; exponent <= -POWERS && value != 0; exponent += POWERS - 1)
        value /= powers[POWERS - 1];
    if (exponent >= 0)
        return exponent < POWERS ? value * powers[exponent] : value * HUGE_VAL;
    return value == 0 ? value : value / powers[-exponent];
}

static double take_number(struct scan *scan, const double powers[POWERS])
{
    int negative = take(scan, '-'), exponent, more;
    uint64_t number = 0;
    double value;

    take_digits(scan, &number, &exponent);
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        exponent -= take_digits(scan, &number, &more);
    }
    exponent += take_exponent(scan);
    value = scale(number, exponent, powers);
    return negative ? -value : value;
}

int huggingface_read_scores(const struct pipeline *pipeline, double *scores, size_t count)
{
    struct scan scan = {pipeline->text.data, pipeline->text.data + pipeline->text.length};
    double powers[POWERS];

    for (int i = 0; i < POWERS; i++) {
        char text[8];

        snprintf(text, sizeof(text), "1e%d", i);
        powers[i] = strtod(text, NULL);
    }
    if (!enter_member(&scan, "model") || !enter_member(&scan, "vocab") || !take(&scan, '['))
        return -1;
    for (size_t i = 0; i < count; i++) {
        if ((i > 0 && !take(&scan, ',')) || !take(&scan, '[') || !skip_string(&scan) ||
            !take(&scan, ','))
            return -1;
        peek(&scan);
        scores[i] = take_number(&scan, powers);
        while (take(&scan, ','))
            if (!skip_value(&scan))
                return -1;
        if (!take(&scan, ']'))
            return -1;
    }
    return 0;
}

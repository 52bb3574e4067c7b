/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a short context, and which of them end a sentence. */
#include "config.h"
#include "data/tokenizer/property.h"
#include "punkt_private.h"

#include <string.h>

#define NUMBER "##number##"

struct token {
    const char *at, *end;
    char type[3 * PUNKT_LONGEST + 8]; /* lower case, or NUMBER */
    size_t type_length;               /* 0: too long to be in a table */
    int sentence_break, abbreviation, ellipsis, period, number;
};

/* A line of the context, and the position in it. */
struct words {
    const char *at, *end;
    int curly;
};

/* --- Words ----------------------------------------------------------------------------------- */

/* Length of a run of hyphens or dots, or of dots with single spaces between them; 0: none. */
static size_t several(const char *at, const char *end)
{
    const char *from = at;
    int pairs = 0;
    size_t space;

    if (end - at < 2 || (*at != '-' && *at != '.'))
        return 0;
    if (at[1] == *at) {
        while (at < end && *at == *from)
            at++;
        return (size_t)(at - from);
    }
    if (*at != '.')
        return 0;
    while (at < end && *at == '.' && (space = punkt_space(at + 1, end)) > 0) {
        if (at + 1 + space >= end || at[1 + space] != '.')
            break;
        at += 1 + space;
        pairs++;
    }
    return pairs >= 2 ? (size_t)(at + 1 - from) : 0;
}

static size_t character(const char *at, const char *end)
{
    uint32_t point;

    return (uint8_t)*at < 0x80 ? 1 : utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
}

/* Does a word end at 'at'? */
static int ends_word(const struct words *words, const char *at)
{
    const char *end = words->end;

    if (at == end || (punkt_bytes[(uint8_t)*at] & (BYTE_NON_WORD | BYTE_SPACE)))
        return 1;
    if ((uint8_t)*at >= 0x80)
        return punkt_space(at, end) > 0 || punkt_quote(at, end, BYTE_NON_WORD, words->curly) > 0;
    if (*at == '-' || *at == '.')
        return several(at, end) > 0;
    if (*at != ',')
        return 0;
    at++;
    return at == end || punkt_quote(at, end, BYTE_NON_WORD, words->curly) > 0 ||
           punkt_space(at, end) > 0 || several(at, end) > 0;
}

/* The next word of a line. Returns 0 at its end. */
static int next_word(struct words *words, struct token *token)
{
    size_t size;

    while (words->at < words->end && (size = punkt_space(words->at, words->end)) > 0)
        words->at += size;
    if (words->at == words->end)
        return 0;
    token->at = words->at;
    size = several(words->at, words->end);
    if (size > 0) {
        words->at += size;
    } else {
        int word = !(punkt_bytes[(uint8_t)*words->at] & BYTE_NO_START);

        words->at += character(words->at, words->end);
        while (word && !ends_word(words, words->at))
            words->at += character(words->at, words->end);
    }
    token->end = words->at;
    return 1;
}

/* --- Types ----------------------------------------------------------------------------------- */

static uint32_t point_at(const char *at, const char *end)
{
    uint32_t point;

    utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
    return point;
}

static int is_digit(uint32_t point)
{
    return point < 0x80 ? point >= '0' && point <= '9'
                        : point != UNICODE_INVALID && property_of(point).category == CATEGORY_ND;
}

/* ^-?[\.,]?\d[\d,\.-]*\.?$ */
static int is_number(const char *at, const char *end)
{
    at += at < end && *at == '-';
    at += at < end && (*at == '.' || *at == ',');
    if (at == end || !is_digit(point_at(at, end)))
        return 0;
    for (; at < end; at += character(at, end))
        if (*at != ',' && *at != '.' && *at != '-' && !is_digit(point_at(at, end)))
            return 0;
    return 1;
}

static int is_letter(uint32_t point)
{
    return point != UNICODE_INVALID && unicode_class(point) == UNICODE_LETTER;
}

/* str.lower(), with Greek's final sigma. */
static size_t lower(const char *at, const char *end, char *out)
{
    const char *from = at;
    size_t length = 0;
    uint32_t before = 0;

    while (at < end) {
        uint32_t point, parts[2];
        size_t size = utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point), count;

        if (point < 0x80 || point == UNICODE_INVALID) {
            out[length++] = (char)(*at >= 'A' && *at <= 'Z' ? *at + 32 : *at);
        } else {
            count = property_lower(point, parts);
            if (point == 0x3A3 && at > from && is_letter(before) &&
                (at + size == end || !is_letter(point_at(at + size, end))))
                parts[0] = 0x3C2;
            for (size_t i = 0; i < count; i++)
                length += utf8_encode(parts[i], (uint8_t *)out + length);
        }
        before = point;
        at += size;
    }
    return length;
}

static void set_type(struct token *t)
{
    t->number = is_number(t->at, t->end);
    if (t->number) {
        t->type_length = sizeof(NUMBER) - 1;
        memcpy(t->type, NUMBER, t->type_length);
    } else {
        t->type_length = t->end - t->at > PUNKT_LONGEST ? 0 : lower(t->at, t->end, t->type);
    }
}

/* Length of the type without a final period. */
static size_t without_period(const struct token *t)
{
    return t->type_length - (t->type_length > 1 && t->type[t->type_length - 1] == '.');
}

/* Other_Uppercase and Other_Lowercase: letters of other categories. */
static int in_ranges(uint32_t point, const uint32_t (*ranges)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (point >= ranges[i][0] && point <= ranges[i][1])
            return 1;
    return 0;
}

static int is_upper(const struct token *t)
{
    static const uint32_t others[][2] = {{0x2160, 0x216F},
                                         {0x24B6, 0x24CF},
                                         {0x1F130, 0x1F149},
                                         {0x1F150, 0x1F169},
                                         {0x1F170, 0x1F189}};
    uint32_t point = point_at(t->at, t->end);

    if (point < 0x80)
        return point >= 'A' && point <= 'Z';
    return point != UNICODE_INVALID &&
           (property_of(point).category == CATEGORY_LU ||
            in_ranges(point, others, sizeof(others) / sizeof(others[0])));
}

static int is_lower(const struct token *t)
{
    static const uint32_t others[][2] = {
        {0xAA, 0xAA},     {0xBA, 0xBA},     {0x2B0, 0x2B8},   {0x2C0, 0x2C1},   {0x2E0, 0x2E4},
        {0x345, 0x345},   {0x37A, 0x37A},   {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78}, {0x1D9B, 0x1DBF},
        {0x2071, 0x2071}, {0x207F, 0x207F}, {0x2090, 0x209C}, {0x2170, 0x217F}, {0x24D0, 0x24E9},
        {0x2C7C, 0x2C7D}, {0xA69C, 0xA69D}, {0xA770, 0xA770}, {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F},
    };
    uint32_t point = point_at(t->at, t->end);

    if (point < 0x80)
        return point >= 'a' && point <= 'z';
    return point != UNICODE_INVALID &&
           (property_of(point).category == CATEGORY_LL ||
            in_ranges(point, others, sizeof(others) / sizeof(others[0])));
}

/* One letter and a period: [^\W\d]\.$ */
static int is_initial(const struct token *t)
{
    size_t size = character(t->at, t->end);
    uint32_t point = point_at(t->at, t->end);

    if (t->end - t->at != (ptrdiff_t)size + 1 || t->end[-1] != '.' || point == UNICODE_INVALID)
        return 0;
    return point == '_' || unicode_class(point) == UNICODE_LETTER ||
           (unicode_class(point) == UNICODE_NUMBER && !is_digit(point));
}

/* --- Annotation ------------------------------------------------------------------------------ */

static int is_abbreviation(const struct punkt *punkt, const struct token *t)
{
    size_t length;
    const char *text = t->type, *part;
    char plain[3 * PUNKT_LONGEST + 8];

    if (t->end - t->at > PUNKT_LONGEST)
        return 0;
    length = t->type_length - 1;
    if (t->number) { /* its type is another text */
        length = lower(t->at, t->end - 1, plain);
        text = plain;
    }
    if (word_table_find(&punkt->abbreviations, text, length) != WORD_NONE)
        return 1;
    part = length > 0 ? memrchr(text, '-', length) : NULL;
    if (!part)
        return 0;
    return word_table_find(&punkt->abbreviations, part + 1, (size_t)(text + length - part - 1)) !=
           WORD_NONE;
}

static int is_dots(const struct token *t)
{
    const char *at = t->at;

    while (at < t->end && *at == '.')
        at++;
    return at == t->end;
}

/* What a word is by itself. */
static void annotate(const struct punkt *punkt, struct token *t)
{
    size_t length = (size_t)(t->end - t->at);

    set_type(t);
    t->period = t->end[-1] == '.';
    t->sentence_break = t->abbreviation = t->ellipsis = 0;
    if (length == 1 && (punkt_bytes[(uint8_t)*t->at] & BYTE_MARK))
        t->sentence_break = 1;
    else if (length > 1 && t->period && t->end[-2] == '.')
        t->ellipsis = is_dots(t);
    else if (t->period && is_abbreviation(punkt, t))
        t->abbreviation = 1;
    else if (t->period)
        t->sentence_break = 1;
}

/* The type that the tables know a following word by. */
static size_t next_type(const struct token *t)
{
    return t->sentence_break ? without_period(t) : t->type_length;
}

static int64_t context_of(const struct punkt *punkt, const struct token *t)
{
    size_t found = word_table_find(&punkt->context, t->type, next_type(t));

    return found == WORD_NONE ? 0 : punkt->context.entries[found].count;
}

/* Does the word begin a sentence, by its case? 1: yes, 0: no, -1: unknown. */
static int begins_sentence(const struct punkt *punkt, const struct token *t)
{
    int64_t context;

    if (t->end - t->at == 1 && strchr(";:,.!?", *t->at) && *t->at)
        return 0;
    context = context_of(punkt, t);
    if (is_upper(t) && (context & ORTHO_LOWER) && !(context & ORTHO_MIDDLE_UPPER))
        return 1;
    if (is_lower(t) && ((context & ORTHO_UPPER) || !(context & ORTHO_BEGIN_LOWER)))
        return 0;
    return -1;
}

static int is_collocation(const struct punkt *punkt, const struct token *t,
                          const struct token *next)
{
    char both[2 * sizeof(t->type)];
    size_t first = without_period(t), second = next_type(next);

    if (t->type_length == 0 || next->type_length == 0 || first + second > 2 * PUNKT_LONGEST)
        return 0;
    memcpy(both, t->type, first);
    both[first] = '\t';
    memcpy(both + first + 1, next->type, second);
    return word_table_find(&punkt->collocations, both, first + 1 + second) != WORD_NONE;
}

/* What a word with a period is before the next one. */
static void reconsider(const struct punkt *punkt, struct token *t, const struct token *next)
{
    int initial, begins;

    if (!t->period)
        return;
    initial = is_initial(t);
    if (is_collocation(punkt, t, next)) {
        t->sentence_break = 0;
        return;
    }
    if ((t->abbreviation || t->ellipsis) && !initial) {
        if (begins_sentence(punkt, next) == 1 ||
            (is_upper(next) &&
             word_table_find(&punkt->starters, next->type, next_type(next)) != WORD_NONE)) {
            t->sentence_break = 1;
            return;
        }
    }
    if (!initial && !t->number)
        return;
    begins = begins_sentence(punkt, next);
    if (begins == 0 ||
        (begins < 0 && initial && is_upper(next) && !(context_of(punkt, next) & ORTHO_LOWER)))
        t->sentence_break = 0;
}

int punkt_breaks(const struct punkt *punkt, const char *at, const char *end, int curly)
{
    struct token tokens[2];
    int turn = 0, have = 0;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct words words = {at, newline ? newline : end, curly};

        while (next_word(&words, &tokens[turn])) {
            annotate(punkt, &tokens[turn]);
            if (have) {
                reconsider(punkt, &tokens[!turn], &tokens[turn]);
                if (tokens[!turn].sentence_break)
                    return 1;
            }
            have = 1;
            turn = !turn;
        }
        at = newline ? newline + 1 : end;
    }
    return 0;
}

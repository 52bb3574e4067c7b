/* SPDX-License-Identifier: Apache-2.0 */
/* C4's rules, which remove lines before they judge the rest, and FineWeb's, which count lines. */
#include "config.h"
#include "rules.h"
#include "data/tokenizer/unicode.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int text_line(const char *text, size_t size, size_t *at, const char **line, size_t *length)
{
    const char *end;

    if (*at >= size)
        return 0;
    *line = text + *at;
    end = memchr(*line, '\n', size - *at);
    *length = end ? (size_t)(end - *line) : size - *at;
    *at += *length + 1;
    if (*length > 0 && (*line)[*length - 1] == '\r')
        --*length;
    return 1;
}

/* The offset of the last character of a non-empty text. */
static size_t last_at(const char *text, size_t size)
{
    size_t at = size - 1;

    while (at > 0 && (text[at] & 0xC0) == 0x80)
        at--;
    return at;
}

void text_trim(const char **line, size_t *length)
{
    const char *end = *line + *length;
    size_t space;

    while (*line < end && (space = text_space(*line, end)) > 0)
        *line += space;
    while (*line < end) {
        const char *last = *line + last_at(*line, (size_t)(end - *line));

        if (text_space(last, end) != (size_t)(end - last))
            break;
        end = last;
    }
    *length = (size_t)(end - *line);
}

int text_ends_sentence(const char *text, size_t size)
{
    static const uint32_t others[] = {0x203C, 0x2047, 0x2048, 0x2049, 0x3002, 0xFF01, 0xFF0E,
                                      0xFF1F, 0xFF61, 0x589,  0x61F,  0x6D4,  0x964,  0x965,
                                      0x104A, 0x104B, 0x1362, 0x1367, 0x17D4, 0x17D5, 0x1803,
                                      0x2E2E, 0xFE52, 0xFE56, 0xFE57};
    uint32_t point;

    if (size == 0)
        return 0;
    utf8_decode((const uint8_t *)text + last_at(text, size), (const uint8_t *)text + size, &point);
    if (point < 0x80)
        return point == '.' || point == '?' || point == '!';
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (point == others[i])
            return 1;
    return 0;
}

int text_ends_with_ellipsis(const char *text, size_t size)
{
    return size > 2 && (memcmp(text + size - 3, "...", 3) == 0 ||
                        memcmp(text + size - 3, "\xE2\x80\xA6", 3) == 0);
}

/* --- C4 --------------------------------------------------------------------------------------- */

/* Does 'text', in lower case, contain 'wanted'? */
static bool mentions(const char *text, size_t size, const char *wanted)
{
    size_t length = strlen(wanted);

    return size >= length && memmem(text, size, wanted, length) != NULL;
}

/* Count words separated by white space, and the characters of the longest. */
static int64_t line_words(const char *line, size_t length, int64_t *longest)
{
    int64_t words = 0;

    *longest = 0;
    for (size_t i = 0; i < length;) {
        size_t begin, space;

        while (i < length && (space = text_space(line + i, line + length)) > 0)
            i += space;
        begin = i;
        while (i < length && text_space(line + i, line + length) == 0)
            i++;
        if (i > begin) {
            int64_t chars = (int64_t)(i - begin);

            /* Only long words need an exact count. */
            if (chars > *longest && chars > 255)
                chars = (int64_t)text_chars(line + begin, i - begin);
            *longest = chars > *longest ? chars : *longest;
            words++;
        }
    }
    return words;
}

/* The length of the citation at 'at': [12], [edit], [citation needed]; or 0. */
static size_t citation(const char *at, size_t left)
{
    static const char *const words[] = {"[edit]", "[citation needed]"};
    size_t digits = 1;

    for (size_t i = 0; i < 2; i++)
        if (left >= strlen(words[i]) && memcmp(at, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    while (digits < left && at[digits] >= '0' && at[digits] <= '9')
        digits++;
    return digits < left && at[digits] == ']' ? digits + 1 : 0;
}

/* The number of sentences in a line: sentence ends followed by white space or the end of the line.
 * At least one. */
static int64_t count_sentences(const char *line, size_t length)
{
    int64_t sentences = 0;

    for (size_t i = 0; i < length; i++) {
        size_t next = i + 1;

        if (line[i] != '.' && line[i] != '?' && line[i] != '!')
            continue;
        while (next < length && strchr(".?!\"')]", line[next]) && line[next])
            next++;
        if (next == length)
            break;
        sentences += text_space(line + next, line + length) > 0;
        i = next - 1;
    }
    return sentences + 1;
}

static void copy_line(const struct rules *rules, struct rule_scratch *scratch, const char *line,
                      size_t length, char *out, size_t *size)
{
    size_t used = 0;

    if (!rules->on[RULE_C4_CITATIONS] || !memchr(line, '[', length)) {
        memcpy(out, line, length);
        *size = length;
        return;
    }
    for (size_t i = 0; i < length;) {
        size_t skip = line[i] == '[' ? citation(line + i, length - i) : 0;

        if (skip > 0) {
            scratch->citations++;
            i += skip;
        } else {
            out[used++] = line[i++];
        }
    }
    *size = used;
}

/* The rule that removes this line, or RULE_NONE. 'folded' is the line in lower case. */
static int line_rule(const struct rules *rules, const char *line, const char *folded, size_t length)
{
    static const char *const policy[] = {"terms of use", "privacy policy", "cookie policy",
                                         "uses cookies", "use of cookies", "use cookies"};
    int64_t longest, words = line_words(line, length, &longest);

    if (rules->on[RULE_C4_LONG_WORD] && (double)longest > rules->value[RULE_C4_LONG_WORD])
        return RULE_C4_LONG_WORD;
    if (rules->on[RULE_C4_LINE_END] &&
        (!(text_ends_sentence(line, length) ||
           (length > 0 && (line[length - 1] == '"' || line[length - 1] == '\''))) ||
         text_ends_with_ellipsis(line, length)))
        return RULE_C4_LINE_END;
    if (rules->on[RULE_C4_LINE_WORDS] && (double)words < rules->value[RULE_C4_LINE_WORDS])
        return RULE_C4_LINE_WORDS;
    if (rules->on[RULE_C4_LOREM_IPSUM] && mentions(folded, length, "lorem ipsum"))
        return RULE_C4_LOREM_IPSUM;
    if (rules->on[RULE_C4_JAVASCRIPT] && mentions(folded, length, "javascript"))
        return RULE_C4_JAVASCRIPT;
    if (rules->on[RULE_C4_CURLY_BRACKET] && memchr(line, '{', length))
        return RULE_C4_CURLY_BRACKET;
    for (size_t i = 0; rules->on[RULE_C4_POLICY] && i < sizeof(policy) / sizeof(policy[0]); i++)
        if (mentions(folded, length, policy[i]))
            return RULE_C4_POLICY;
    return RULE_NONE;
}

static void make_room(char **data, size_t *capacity, size_t size)
{
    if (*capacity > size)
        return;
    *capacity = 2 * size + 1;
    *data = xrealloc(*data, *capacity, 1);
}

int rules_c4(const struct rules *rules, struct rule_scratch *scratch, const char *text, size_t size,
             struct verdict *verdict)
{
    int64_t sentences = 0;
    const char *line;
    size_t at = 0, length, used = 0;

    make_room(&scratch->edited, &scratch->edited_capacity, size);
    make_room(&scratch->folded, &scratch->folded_capacity, size);
    while (text_line(text, size, &at, &line, &length)) {
        char *out = scratch->edited + used + (used > 0);
        size_t kept;
        int rule;

        text_trim(&line, &length);
        copy_line(rules, scratch, line, length, out, &kept);
        wordlist_fold(out, kept, scratch->folded);
        rule = line_rule(rules, out, scratch->folded, kept);
        if (rule == RULE_C4_LOREM_IPSUM || rule == RULE_C4_CURLY_BRACKET)
            return rule;
        if (rule != RULE_NONE) {
            scratch->lines_removed[rule]++;
            continue;
        }
        sentences += count_sentences(out, kept);
        if (used > 0)
            scratch->edited[used] = '\n';
        used = (size_t)(out - scratch->edited) + kept;
    }
    if (rules->on[RULE_C4_SENTENCES] && (double)sentences < rules->value[RULE_C4_SENTENCES])
        return RULE_C4_SENTENCES;
    verdict->text = scratch->edited;
    verdict->size = used;
    verdict->edited = used != size || memcmp(scratch->edited, text, size) != 0;
    return RULE_NONE;
}

/* --- FineWeb ---------------------------------------------------------------------------------- */

static const size_t short_line = 30;

int rules_fineweb(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                  size_t size)
{
    double lines = 0, ended = 0, brief = 0, repeated = 0, newlines = 0;
    double chars = (double)text_chars(text, size);

    for (const char *p = text; (p = memchr(p, '\n', (size_t)(text + size - p))); p++)
        newlines++;
    counters_reset(&scratch->counters, (size_t)newlines + 1);
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at), *inner = line;
        size_t length = end ? (size_t)(end - line) : size - at, inner_length = length, points;

        at += length + 1;
        text_trim(&inner, &inner_length);
        if (inner_length == 0)
            continue;
        points = text_chars(line, length);
        lines++;
        ended += text_ends_sentence(line, length);
        brief += points <= short_line;
        if (counters_at(&scratch->counters, hash_bytes(line, length, 1))->count++ > 0)
            repeated += (double)points;
    }
    if (rules->on[RULE_FINEWEB_LINE_END] && ended < rules->value[RULE_FINEWEB_LINE_END] * lines)
        return RULE_FINEWEB_LINE_END;
    if (rules->on[RULE_FINEWEB_SHORT_LINES] &&
        brief > rules->value[RULE_FINEWEB_SHORT_LINES] * lines)
        return RULE_FINEWEB_SHORT_LINES;
    if (rules->on[RULE_FINEWEB_REPEATED_CHARS] &&
        repeated > rules->value[RULE_FINEWEB_REPEATED_CHARS] * (chars - newlines))
        return RULE_FINEWEB_REPEATED_CHARS;
    return rules->on[RULE_FINEWEB_NEWLINES] &&
                   newlines > rules->value[RULE_FINEWEB_NEWLINES] * (double)scratch->words.count
               ? RULE_FINEWEB_NEWLINES
               : RULE_NONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Gopher's rules for repetition and quality. */
#include "config.h"
#include "rules.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- Repetition ------------------------------------------------------------------------------- */

struct repeats {
    int64_t pieces, repeated, chars;
};

static void add_piece(struct counters *counters, const char *piece, size_t size,
                      struct repeats *repeats)
{
    struct counter *counter = counters_at(counters, hash_bytes(piece, size, 1));

    repeats->pieces++;
    if (counter->count++ > 0) {
        repeats->repeated++;
        repeats->chars += (int64_t)text_chars(piece, size);
    }
}

/* Count repeated pieces of a text, which are separated by at least 'newlines' newlines. */
static void count_repeats(struct counters *counters, const char *text, size_t size, size_t newlines,
                          struct repeats *repeats)
{
    size_t begin = 0, at = 0, lines = 1;

    for (const char *p = text; (p = memchr(p, '\n', (size_t)(text + size - p))); p++)
        lines++;
    counters_reset(counters, lines);
    while (at < size) {
        const char *found = memchr(text + at, '\n', size - at);
        size_t end = found ? (size_t)(found - text) : size, run = 0;

        while (end + run < size && text[end + run] == '\n')
            run++;
        at = end + run;
        if (run >= newlines || end == size) {
            add_piece(counters, text + begin, end - begin, repeats);
            begin = at;
            if (end < size && at == size)
                add_piece(counters, text + at, 0, repeats);
        } else if (at == size) {
            add_piece(counters, text + begin, at - begin, repeats);
        }
    }
}

static bool is_above(const struct rules *rules, enum rule rule, double part, double whole)
{
    return rules->on[rule] && whole > 0 && part / whole > rules->value[rule];
}

/* Compute the hashes of all n-grams with a rolling hash. */
static size_t make_ngrams(const struct wordlist *words, size_t n, uint64_t *ngrams)
{
    uint64_t sum = 0, power = 1;

    if (words->count < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        power *= HASH_A;
    for (size_t i = 0; i < words->count; i++) {
        sum = sum * HASH_A + words->items[i].hash;
        if (i + 1 >= n) {
            ngrams[i + 1 - n] = sum;
            sum -= words->items[i + 1 - n].hash * power;
        }
    }
    return words->count - n + 1;
}

static int64_t ngram_chars(const struct wordlist *words, size_t at, size_t n)
{
    int64_t chars = 0;

    for (size_t i = 0; i < n; i++)
        chars += words->items[at + i].chars;
    return chars;
}

/* The characters, including spaces between words, covered by the most frequent n-gram; of several,
 * the first. */
static int64_t top_chars(struct rule_scratch *scratch, size_t n, size_t count)
{
    uint32_t most = 0;
    size_t first = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t times = ++counters_at(&scratch->counters, scratch->ngrams[i])->count;

        most = times > most ? times : most;
    }
    while (counters_at(&scratch->counters, scratch->ngrams[first])->count < most)
        first++;
    return (ngram_chars(&scratch->words, first, n) + (int64_t)n - 1) * (int64_t)most;
}

/* The characters in n-grams that occurred before; overlapping n-grams are not counted. */
static int64_t repeated_chars(struct rule_scratch *scratch, size_t n, size_t count)
{
    int64_t chars = 0;

    for (size_t i = 0; i < count;) {
        if (counters_at(&scratch->counters, scratch->ngrams[i])->count++ == 0) {
            i++;
            continue;
        }
        chars += ngram_chars(&scratch->words, i, n);
        i += n;
    }
    return chars;
}

static int repeated_ngrams(const struct rules *rules, struct rule_scratch *scratch, double chars)
{
    size_t total = scratch->words.count;

    if (scratch->ngrams_capacity < total) {
        scratch->ngrams_capacity = total * 2;
        scratch->ngrams =
            xrealloc(scratch->ngrams, scratch->ngrams_capacity, sizeof(*scratch->ngrams));
    }
    for (size_t n = 2; n <= 10; n++) {
        int rule = RULE_TOP_2_GRAM + (int)n - 2;
        size_t count;
        int64_t part;

        if (!rules->on[rule])
            continue;
        count = make_ngrams(&scratch->words, n, scratch->ngrams);
        if (count == 0)
            continue;
        counters_reset(&scratch->counters, count);
        part = n < 5 ? top_chars(scratch, n, count) : repeated_chars(scratch, n, count);
        if (is_above(rules, (enum rule)rule, (double)part, chars))
            return rule;
        if (n >= 5 && part == 0)
            break; /* a text without repeated n-grams has no longer ones */
    }
    return RULE_NONE;
}

int rules_repetition(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                     size_t size)
{
    struct repeats paragraphs = {0, 0, 0}, lines = {0, 0, 0};
    const char *inner = text;
    size_t inner_size = size;
    double chars = (double)text_chars(text, size);

    text_trim(&inner, &inner_size);
    count_repeats(&scratch->counters, inner, inner_size, 2, &paragraphs);
    count_repeats(&scratch->counters, text, size, 1, &lines);
    if (is_above(rules, RULE_REPEATED_PARAGRAPHS, (double)paragraphs.repeated,
                 (double)paragraphs.pieces))
        return RULE_REPEATED_PARAGRAPHS;
    if (is_above(rules, RULE_REPEATED_PARAGRAPH_CHARS, (double)paragraphs.chars, chars))
        return RULE_REPEATED_PARAGRAPH_CHARS;
    if (is_above(rules, RULE_REPEATED_LINES, (double)lines.repeated, (double)lines.pieces))
        return RULE_REPEATED_LINES;
    if (is_above(rules, RULE_REPEATED_LINE_CHARS, (double)lines.chars, chars))
        return RULE_REPEATED_LINE_CHARS;
    return repeated_ngrams(rules, scratch, chars);
}

/* --- Quality ---------------------------------------------------------------------------------- */

static int64_t count_byte(const char *text, size_t size, char wanted)
{
    int64_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += text[i] == wanted;
    return count;
}

/* Both "..." and U+2026. */
static int64_t count_ellipses(const char *text, size_t size)
{
    int64_t count = 0;

    for (size_t i = 0; i + 2 < size; i++) {
        const char *found = memchr(text + i, '.', size - 2 - i);

        if (!found)
            break;
        i = (size_t)(found - text);
        if (text[i + 1] == '.' && text[i + 2] == '.') {
            count++;
            i += 2;
        }
    }
    for (const char *at = text; (at = memchr(at, 0xE2, (size_t)(text + size - at))); at++)
        count += text + size - at > 2 && memcmp(at, "\xE2\x80\xA6", 3) == 0;
    return count;
}

static bool begins_with_bullet(const char *line, size_t length)
{
    text_trim(&line, &length);
    return (length > 0 && line[0] == '-') || (length > 2 && memcmp(line, "\xE2\x80\xA2", 3) == 0);
}

static int lines_rule(const struct rules *rules, const char *text, size_t size)
{
    int64_t lines = 0, bullets = 0, ellipses = 0;
    const char *line;
    size_t at = 0, length;

    while (text_line(text, size, &at, &line, &length)) {
        lines++;
        bullets += begins_with_bullet(line, length);
        text_trim(&line, &length);
        ellipses += text_ends_with_ellipsis(line, length);
    }
    if (is_above(rules, RULE_BULLET_LINES, (double)bullets, (double)lines))
        return RULE_BULLET_LINES;
    return is_above(rules, RULE_ELLIPSIS_LINES, (double)ellipses, (double)lines)
               ? RULE_ELLIPSIS_LINES
               : RULE_NONE;
}

static int is_stop_word(const char *word, size_t size)
{
    static const char *const stop_words[] = {"the", "be",   "to",   "of",
                                             "and", "that", "have", "with"};

    for (int i = 0; i < 8; i++)
        if (strlen(stop_words[i]) == size && memcmp(stop_words[i], word, size) == 0)
            return i;
    return -1;
}

int rules_quality(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                  size_t size)
{
    const struct wordlist *words = &scratch->words;
    double all = (double)words->count, real = 0, chars = 0, alphabetic = 0;
    unsigned stops = 0;
    int rule;

    for (size_t i = 0; i < words->count; i++) {
        const struct word *word = &words->items[i];

        alphabetic += (word->flags & WORD_ALPHA) != 0;
        if (word->flags & WORD_SYMBOL)
            continue;
        real++;
        chars += word->chars;
        if (word->size <= 4) {
            int stop = is_stop_word(text + word->begin, word->size);

            stops |= stop >= 0 ? 1u << stop : 0;
        }
    }
    if (rules->on[RULE_MIN_WORDS] && real < rules->value[RULE_MIN_WORDS])
        return RULE_MIN_WORDS;
    if (rules->on[RULE_MAX_WORDS] && real > rules->value[RULE_MAX_WORDS])
        return RULE_MAX_WORDS;
    if (rules->on[RULE_MIN_WORD_LENGTH] && chars < rules->value[RULE_MIN_WORD_LENGTH] * real)
        return RULE_MIN_WORD_LENGTH;
    if (rules->on[RULE_MAX_WORD_LENGTH] && chars > rules->value[RULE_MAX_WORD_LENGTH] * real)
        return RULE_MAX_WORD_LENGTH;
    if (is_above(rules, RULE_HASHES, (double)count_byte(text, size, '#'), all))
        return RULE_HASHES;
    if (is_above(rules, RULE_ELLIPSES, (double)count_ellipses(text, size), all))
        return RULE_ELLIPSES;
    rule = lines_rule(rules, text, size);
    if (rule != RULE_NONE)
        return rule;
    if (rules->on[RULE_ALPHABETIC_WORDS] && alphabetic < rules->value[RULE_ALPHABETIC_WORDS] * all)
        return RULE_ALPHABETIC_WORDS;
    return rules->on[RULE_STOP_WORDS] &&
                   __builtin_popcount(stops) < (int)rules->value[RULE_STOP_WORDS]
               ? RULE_STOP_WORDS
               : RULE_NONE;
}

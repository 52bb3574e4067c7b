/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting texts into words: every engine against a plain reading of the regular expression,
 * character by character, on random texts of the classes that matter. */
#include "tap.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode.h"

#include <stdlib.h>

static uint64_t state = 88172645463325252u;

static unsigned draw(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

static enum unicode_class class_at(const uint8_t *text, size_t length, size_t at, size_t *size)
{
    uint32_t point;

    *size = utf8_decode(text + at, text + length, &point);
    return point == UNICODE_INVALID ? UNICODE_OTHER : unicode_class(point);
}

/* The end of the word that begins at 'at', by GPT-2's alternatives in their order. */
static size_t gpt2_word(const uint8_t *text, size_t length, size_t at)
{
    static const char *const contractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    size_t size, begin = at, last = at;
    enum unicode_class class;

    for (size_t i = 0; i < sizeof(contractions) / sizeof(contractions[0]); i++) {
        size = strlen(contractions[i]);
        if (length - at >= size && memcmp(text + at, contractions[i], size) == 0)
            return at + size;
    }
    if (text[at] == ' ' && at + 1 < length &&
        class_at(text, length, at + 1, &size) != UNICODE_SPACE)
        at++;
    class = class_at(text, length, at, &size);
    while (at < length && class_at(text, length, at, &size) == class) {
        last = at;
        at += size;
    }
    if (class == UNICODE_SPACE && at < length && last > begin)
        return last;
    return at;
}

static size_t draw_text(uint8_t *text, size_t most)
{
    static const char *const parts[] = {
        " ",
        "  ",
        "\n",
        "\t",
        "'",
        "'s",
        "'re",
        "'ll",
        "'t",
        "a",
        "bc",
        "Z",
        "0",
        "19",
        ".",
        ",",
        "-",
        "\xC2\xA0",
        "\xE3\x80\x80",
        "\xE2\x80\xA8",
        "\xC3\xA9",
        "\xE4\xBD\xA0",
        "\xD9\xA1",
        "\xF0\x9F\x98\x80",
        "\xCC\x81",
        "\xFF",
        "\xE2\x80",
        "\x80",
        "\xC2\x85",
        "    ",
        "abcdefghijklmnopqrstuvwxyz",
        "\xD0\xB4\xD0\xB0",
    };
    size_t length = 0, wanted = 1 + draw((unsigned)most - 40);
    unsigned first = draw(28), kinds = 1 + draw(sizeof(parts) / sizeof(parts[0]) - first);

    while (length < wanted) {
        const char *part = parts[first + draw(kinds)];

        memcpy(text + length, part, strlen(part));
        length += strlen(part);
    }
    return length;
}

static int agrees(struct splitter *splitter, const uint8_t *text, size_t length)
{
    size_t begin = 0;

    split_begin(splitter, text, length);
    while (split_next(splitter))
        for (size_t i = 0; i < splitter->count; i++) {
            size_t expected = gpt2_word(text, length, begin);

            if (splitter->base + splitter->ends[i] != expected) {
                diag("the word at %zu of %zu ends at %zu, not at %zu", begin, length, expected,
                     splitter->base + splitter->ends[i]);
                return 0;
            }
            begin = expected;
        }
    return begin == length;
}

static void test_gpt2(const struct engine *engine)
{
    static struct splitter splitter;
    int good = 1;

    memset(&splitter, 0, sizeof(splitter));
    splitter.engine = engine;
    splitter.options.rule = SPLIT_GPT2;
    for (int i = 0; i < 4000 && good; i++) {
        size_t most = draw(20) == 0 ? 20000 : draw(2) ? 300 : 60, length;
        uint8_t *text = malloc(most);
        uint8_t *exact;

        length = draw_text(text, most);
        /* On the heap and of the exact size, so that a sanitizer sees a step too far. */
        exact = malloc(length);
        memcpy(exact, text, length);
        good = agrees(&splitter, exact, length);
        free(exact);
        free(text);
    }
    ok(good, "GPT-2's words by %s", engine->name);
}

/* Cuts: the ends are where the table says. */
static void test_cuts(void)
{
    static struct splitter splitter;
    static uint8_t cuts[65536];
    int good = 1;

    memset(&splitter, 0, sizeof(splitter));
    for (size_t i = 0; i < sizeof(cuts); i++)
        cuts[i] = draw(4) == 0 ? SPLIT_HERE : draw(4) == 0 ? SPLIT_SPACES : 0;
    splitter.options.rule = SPLIT_CUTS;
    splitter.cuts = cuts;
    for (int i = 0; i < 300; i++) {
        size_t length = 1 + draw(9000), at = 0;
        uint8_t *text = malloc(length);

        for (size_t k = 0; k < length; k++)
            text[k] = (uint8_t)draw(256);
        split_begin(&splitter, text, length);
        while (split_next(&splitter))
            for (size_t k = 0; k < splitter.count; k++) {
                uint16_t pair = 0;

                for (at++; at < length; at++) {
                    uint16_t behind = 0;

                    pair = (uint16_t)(text[at - 1] | text[at] << 8);
                    if (at + 1 < length)
                        behind = (uint16_t)(text[at] | text[at + 1] << 8);
                    if (cuts[pair] == SPLIT_HERE ||
                        (cuts[pair] == SPLIT_SPACES && at + 1 < length && cuts[behind] == 0))
                        break;
                }
                good &= splitter.base + splitter.ends[k] == at;
            }
        good &= at == length;
        free(text);
    }
    ok(good, "cuts by pairs of bytes");
}

#define TAIL  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
    "*" end "|"
#define CASED_TAIL  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

/* Texts of short parts that matter to these patterns, so that all orders of them occur. */
static size_t draw_parts(uint8_t *text, size_t most)
{
    static const char *const parts[] = {
        "a",
        "B",
        "'",
        "s",
        "'ll",
        "'S",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "/",
        "!",
        "!!",
        "1",
        "12345",
        "\xC3\xA9",
        "\xC3\x89",
        "\xE6\x97\xA5",
        "\xE2\x80\x9C",
        "\xCC\x81",
        "\xC2\xA0",
        "\xC5\xBF",
        "abcdefgh",
        "ABCDEF",
        "\xFF",
        "\xD9\xA1",
        ";\n//",
        "-------------------------------------",
    };
    size_t length = 0, count = sizeof(parts) / sizeof(parts[0]);
    size_t range = draw(3) ? 1 + draw((unsigned)count) : count, from = draw((unsigned)count);

    for (;;) {
        const char *part = parts[(from + draw((unsigned)range)) % count];

        if (length + strlen(part) > most)
            return length;
        memcpy(text + length, part, strlen(part));
        length += strlen(part);
        if (draw((unsigned)most) == 0)
            return length;
    }
}

/* The quick splitters against the same pattern as a DFA, which is checked against Hugging Face. */
static int same_words(struct splitter *splitter, const struct regex *regex, const uint8_t *text,
                      size_t length)
{
    size_t begin = 0;

    split_begin(splitter, text, length);
    while (split_next(splitter))
        for (size_t i = 0; i < splitter->count; i++) {
            size_t expected = begin + regex_match(regex, text + begin, text + length);

            if (splitter->base + splitter->ends[i] != expected) {
                diag("the word at %zu of %zu ends at %zu, not at %zu", begin, length, expected,
                     splitter->base + splitter->ends[i]);
                return 0;
            }
            begin = expected;
        }
    return begin == length;
}

static void test_pattern(const struct engine *engine, const char *pattern,
                         struct split_options options)
{
    static struct splitter splitter;
    struct steps steps = {0};
    struct error err;
    int good = steps_add(&steps, pattern, strlen(pattern), 0, STEP_ISOLATED, 0, 0, &err) == 0;

    if (!good)
        diag("%s", err.text);
    memset(&splitter, 0, sizeof(splitter));
    splitter.engine = engine;
    splitter.options = options;
    splitter.steps = &steps;
    for (int i = 0; i < 3000 && good; i++) {
        size_t most = draw(30) == 0 ? 20000 : draw(2) ? 300 : 90, length;
        uint8_t *text = malloc(most), *exact;

        length = draw(4) ? draw_parts(text, most) : draw_text(text, most);
        exact = malloc(length);
        memcpy(exact, text, length);
        good = same_words(&splitter, &steps.steps[0]->regex, exact, length);
        free(exact);
        free(text);
    }
    ok(good, "%s%s with %d digits%s", engine->name,
       options.rule == SPLIT_CASED ? ", upper and lower case" : "", options.digits,
       options.no_contractions ? ", no contractions" : "");
    steps_clear(&steps);
}

static void test_patterns(const struct engine *engine)
{
    test_pattern(engine, HEAD "\\p{N}{1,3}" TAIL, (struct split_options){SPLIT_LLAMA3, 3, 0});
    test_pattern(engine, HEAD "\\p{N}" TAIL, (struct split_options){SPLIT_LLAMA3, 1, 0});
    test_pattern(engine, HEAD "\\p{N}+" TAIL, (struct split_options){SPLIT_LLAMA3, 0, 0});
    test_pattern(engine, CASED(CONTRACTION) "\\p{N}{1,3}" CASED_TAIL,
                 (struct split_options){SPLIT_CASED, 3, 0});
    test_pattern(engine, CASED("") "\\p{N}" CASED_TAIL, (struct split_options){SPLIT_CASED, 1, 1});
}

/* Patterns and the lengths of the words that Hugging Face's tokenizers 0.23 cut. */
static void test_words(void)
{
#define QWEN                                                                       \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?" \
    "[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BLOOM                                                                                     \
    " ?[^(\\s|[.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C]" \
    ")]+"
    static const char one[] = "HTTPServer don'tGo I'LL x's's ;\n//c\n/!x /\n";
    static const char two[] = "A\xE6\x97\xA5"
                              "B \xE6\x97\xA5"
                              "AB abC  \xC3\x89t\xC3\xA9 12345 "
                              "\r\n \t\n  z";
    static const struct {
        const char *pattern, *text, *lengths;
        enum step_behavior behavior;
    } rows[] = {
        {CASED(CONTRACTION) "\\p{N}{1,3}" CASED_TAIL, one, "10 6 2 5 4 2 5 1 1 2 1 3", 0},
        {CASED(CONTRACTION) "\\p{N}{1,3}" CASED_TAIL, two, "4 1 4 2 3 1 1 6 1 3 2 6 1 2", 0},
        {CASED("") "\\p{N}" CASED_TAIL, one, "10 4 2 2 2 3 2 2 2 5 1 1 2 1 3", 0},
        {QWEN, two, "5 6 4 1 6 1 1 1 1 1 1 6 1 2", 0},
        {BLOOM, one, "10 8 5 6 2 1 3 1 1 1 1 2 1", 0},
        {BLOOM, two, "5 6 4 1 6 6 7 2", 0},
        {"[.,]", ",a..b,c.", "1 1 1 1 1 1 1 1", STEP_ISOLATED},
        {"[.,]", ",a..b,c.", "1 1 2 1 1 1 1", STEP_CONTIGUOUS},
        {"[.,]", ",a..b,c.", "1 2 1 2 2", STEP_WITH_PREVIOUS},
        {"[.,]", ",a..b,c.", "2 1 2 2 1", STEP_WITH_NEXT},
        {"(?:ab)+?c|x{2,}|[^a-z]$", "ababcxxxy7", "5 3 1 1", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct steps steps = {0};
        struct stepping stepping;
        struct error err;
        const uint8_t *text = (const uint8_t *)rows[i].text, *end;
        char lengths[256] = "";

        if (steps_add(&steps, rows[i].pattern, strlen(rows[i].pattern), 0, rows[i].behavior, 0, 0,
                      &err) < 0) {
            is(err.text, rows[i].lengths, rows[i].lengths);
            continue;
        }
        stepping_begin(&stepping, &steps, text, strlen(rows[i].text));
        while ((end = stepping_next(&stepping))) {
            sprintf(lengths + strlen(lengths), "%s%td", *lengths ? " " : "", end - text);
            text = end;
        }
        is(lengths, rows[i].lengths, rows[i].lengths);
        steps_clear(&steps);
    }
}

/* What is not supported is named. */
static void test_refused_patterns(void)
{
    static const struct {
        const char *pattern, *what;
    } rows[] = {
        {"a++", "a possessive quantifier"},
        {"(?<=a)b", "(?<=a"},
        {"\\p{Han}+", "\\p{Han}"},
        {"\\w+", "\\w"},
        {"a|b*", "an empty match"},
        {"(a*)*b", "a repetition of something that may be empty"},
        {"(?!ab)c", "a look-ahead for more than one character"},
        {"[[:alpha:]]", "[[:..:]]"},
        {"[a", "a class without its end"},
        {"(a", "a group without its end"},
        {"a)", "a parenthesis without its start"},
        {"a{70}", "a repetition of so many times"},
        {"\\p{RustDigit}", "\\p{RustDigit}"},
        {"^a", "^"},
        {"[z-a]", "a broken range"},
        {"\xFF", "a pattern that is not UTF-8"},
        {"(((((((){64}){64}){64}){64}){64}){64}){64}a",
         "so many parts ((((((((){64}){64}){64}){64}){64}){64}){64}a)"},
        {"(((((a{0,64}){64}){64}){64}){64}){64}",
         "so many parts ((((((a{0,64}){64}){64}){64}){64}){64})"},
        {"((?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)){8}b",
         "so many parts (((?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)|(?=a)...)"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct regex regex;
        struct error err = {.text = "(accepted)"};

        if (regex_compile(&regex, rows[i].pattern, strlen(rows[i].pattern), 0, &err) == 0)
            regex_clear(&regex);
        is(err.text, rows[i].what, rows[i].what);
    }
}

int main(void)
{
    test_gpt2(&engine_plain);
    test_gpt2(engine_best());
    test_patterns(&engine_plain);
    test_patterns(engine_best());
    test_words();
    test_refused_patterns();
    test_cuts();
    return done_testing();
}

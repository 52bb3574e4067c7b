/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that drop documents or lines, one group at a time. */
#include "config.h"
#include "data/curate/rules.h"
#include "tap.h"

#include <stdlib.h>

/* 'times' copies of 'text'. */
static char *repeat(const char *text, int times)
{
    size_t size = strlen(text);
    char *all = malloc(size * (size_t)times + 1);

    for (int i = 0; i < times; i++)
        memcpy(all + (size_t)i * size, text, size + 1);
    return all;
}

/* 'count' words that are all different, in lines of ten that end with a full stop. */
static char *prose(int count)
{
    char *text = malloc((size_t)count * 24 + 64);
    size_t used = 0;

    for (int i = 0; i < count; i++)
        used += (size_t)sprintf(text + used, "%s%c%c%c%c%c%s", i % 10 ? " " : "", 'a' + i % 26,
                                'a' + i / 26 % 26, 'a' + i / 676 % 26, 'a' + (i * 7) % 26,
                                'a' + (i * 11) % 26,
                                i % 10 == 9   ? ".\n"
                                : i % 10 == 4 ? " the"
                                : i % 10 == 6 ? " and"
                                              : "");
    return text;
}

static const char *judge(const char *group, const char *text)
{
    struct rules rules;
    struct rule_scratch scratch = {0};
    struct verdict verdict;

    rules_default(&rules);
    rules_switch(&rules, "all", 0, NULL);
    rules_switch(&rules, group, 1, NULL);
    rules_apply(&rules, &scratch, text, strlen(text), &verdict);
    rule_scratch_clear(&scratch);
    return verdict.rule < 0 ? "kept" : rule_table[verdict.rule].name;
}

static void test_rules(void)
{
    static const struct {
        const char *group, *text;
        int times;
        const char *verdict;
    } rows[] = {
        {"all", " ", 1, "empty"},
        {"gopher-quality", "the and words here. ", 12, "min-words"},
        {"gopher-quality", "the and words here. ", 20, "kept"},
        {"max-words", "a b ", 50001, "max-words"},
        {"max-words", "a b ", 50000, "kept"},
        {"min-word-length", "ab abc ", 30, "min-word-length"},
        {"max-word-length", "abcdefghijk abcdefghij ", 30, "max-word-length"},
        {"max-word-length", "abcdefghij abcdefghij ", 30, "kept"},
        {"hashes", "word word word # ", 30, "hashes"},
        {"ellipses", "word word word ... ", 30, "ellipses"},
        {"ellipses", "one two three four five six seven eight nine ten eleven twelve ... ", 9,
         "kept"},
        {"bullet-lines", " - word\n", 10, "bullet-lines"},
        {"ellipsis-lines", "word \xE2\x80\xA6\nword\n", 10, "ellipsis-lines"},
        {"alphabetic-words", "12 34 word ", 20, "alphabetic-words"},
        {"stop-words", "the nothing ", 40, "stop-words"},
        {"stop-words", "the of nothing ", 40, "kept"},
        {"repeated-paragraphs", "one paragraph\n\n", 3, "repeated-paragraphs"},
        {"repeated-lines", "one line\n", 3, "repeated-lines"},
        {"repeated-line-characters", "a long line that is there again\n", 2,
         "repeated-line-characters"},
        {"top-2-gram", "as well ", 10, "top-2-gram"},
        {"repeated-5-grams", "one two three four five six seven ", 4, "repeated-5-grams"},
        {"repeated-10-grams", "one two three four five six seven eight nine ten eleven ", 3,
         "repeated-10-grams"},
        {"c4-curly-bracket", "int main() { return 0; }", 1, "c4-curly-bracket"},
        {"c4-lorem-ipsum", "Lorem Ipsum dolor.", 1, "c4-lorem-ipsum"},
        {"c4-sentences", "One. Two! Three? Four.", 1, "c4-sentences"},
        {"c4-sentences", "One. Two! Three? Four.\nFive.", 1, "kept"},
        {"fineweb-line-end", "no end\n", 10, "fineweb-line-end"},
        {"fineweb-short-lines", "short.\n", 10, "fineweb-short-lines"},
        {"fineweb-repeated-characters", "a line that is repeated.\n", 2,
         "fineweb-repeated-characters"},
        {"fineweb-newlines", "word\n", 10, "fineweb-newlines"},
    };
    char *text = prose(400);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *all = repeat(rows[i].text, rows[i].times);

        is(judge(rows[i].group, all), rows[i].verdict, rows[i].group);
        free(all);
    }
    is(judge("all", text), "kept", "400 different words in sentences break no rule");
    free(text);
}

/* Lines of six words, or of one: whatever character of Unicode's White_Space is between them. */
static void test_c4_spaces(void)
{
    static const char *const spaces[] = {" ",
                                         "\t",
                                         "\x1f",
                                         "\xC2\x85",
                                         "\xC2\xA0",
                                         "\xE1\x9A\x80",
                                         "\xE2\x80\x80",
                                         "\xE2\x80\x89",
                                         "\xE2\x80\x8A",
                                         "\xE2\x80\xAF",
                                         "\xE2\x81\x9F",
                                         "\xE3\x80\x80"};
    struct rules rules;

    rules_default(&rules);
    rules_switch(&rules, "all", 0, NULL);
    rules_switch(&rules, "c4", 1, NULL);
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        const char *s = spaces[i];
        struct rule_scratch scratch = {0};
        struct verdict verdict;
        char text[256], wanted[256];

        snprintf(text, sizeof(text), "%sOne%stwo%sthree.%sFour!%sFive?%sSix. Seven.%s", s, s, s, s,
                 s, s, s);
        snprintf(wanted, sizeof(wanted), "One%stwo%sthree.%sFour!%sFive?%sSix. Seven.", s, s, s, s,
                 s);
        rules_apply(&rules, &scratch, text, strlen(text), &verdict);
        if (!ok(verdict.rule == -1 && verdict.size == strlen(wanted) &&
                    memcmp(verdict.text, wanted, verdict.size) == 0,
                "C4's rules: white space number %zu", i))
            diag("rule %d", verdict.rule);
        rule_scratch_clear(&scratch);
    }
}

/* C4's rules on lines edit the text. */
static void test_c4_lines(void)
{
    static const char text[] =
        "A first line that stays.\nToo short.\n  Please enable JavaScript now."
        "\nWe use cookies on this site.\nWithout an end of its own\n"
        "Said in a book [12] once[citation needed], \"and kept\"";
    struct rules rules;
    struct rule_scratch scratch = {0};
    struct verdict verdict;

    rules_default(&rules);
    rules_switch(&rules, "all", 0, NULL);
    rules_switch(&rules, "c4", 1, NULL);
    rules_set(&rules, "c4-sentences=2", NULL);
    rules_apply(&rules, &scratch, text, strlen(text), &verdict);
    ok(verdict.rule == -1 && verdict.edited, "C4 edits a text");
    if (!ok(verdict.size == 57 &&
                memcmp(verdict.text, "A first line that stays.\nSaid in a book  once, \"and kept\"",
                       57) == 0,
            "  and keeps the lines that are sentences"))
        diag("%zu %.*s", verdict.size, (int)verdict.size, verdict.text);
    ok(scratch.lines_removed[RULE_C4_LINE_WORDS] == 1 &&
           scratch.lines_removed[RULE_C4_JAVASCRIPT] == 1 &&
           scratch.lines_removed[RULE_C4_POLICY] == 1 &&
           scratch.lines_removed[RULE_C4_LINE_END] == 1 && scratch.citations == 2,
       "  and counts the others by rule");
    rule_scratch_clear(&scratch);
}

static void test_rule_words(void)
{
    static const char *const bad[] = {"min-words", "min-words=", "nothing=3", "c4-javascript=1",
                                      "min-words=x"};
    struct rules rules;
    struct error err = {.text = ""};

    rules_default(&rules);
    ok(rules.on[RULE_MIN_WORDS] && !rules.on[RULE_C4_LINE_END], "FineWeb's recipe is the default");
    ok(rules_switch(&rules, "fine", 1, &err) < 0 && strstr(err.text, "no rule fine") &&
           err.code == ERROR_USAGE,
       "an unknown rule is refused");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(rules_set(&rules, bad[i], &err) < 0 && err.code == ERROR_USAGE, "--set %s: %s", bad[i],
           err.text);
    ok(rules_set(&rules, "min-words=7", &err) == 0 && rules.value[RULE_MIN_WORDS] == 7,
       "--set min-words=7");
}

int main(void)
{
    test_rules();
    test_c4_spaces();
    test_c4_lines();
    test_rule_words();
    return done_testing();
}

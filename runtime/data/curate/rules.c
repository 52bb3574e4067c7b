/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "rules.h"
#include "lib/parse.h"
#include "base/core/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPETITION "gopher-repetition"
#define QUALITY    "gopher-quality"

const struct rule_entry rule_table[RULE_COUNT] = {
    {"language", "language", .65, "not in a wanted language, with a probability of %g or more"},
    {"empty", "empty", 0, "no words at all"},
    {"repeated-paragraphs", REPETITION, .3, "more than %g of the paragraphs are repeats"},
    {"repeated-paragraph-characters", REPETITION, .2,
     "more than %g of the characters are in repeated paragraphs"},
    {"repeated-lines", REPETITION, .3, "more than %g of the lines are repeats"},
    {"repeated-line-characters", REPETITION, .2,
     "more than %g of the characters are in repeated lines"},
    {"top-2-gram", REPETITION, .2, "more than %g of the characters are the most frequent 2-gram"},
    {"top-3-gram", REPETITION, .18, "more than %g of the characters are the most frequent 3-gram"},
    {"top-4-gram", REPETITION, .16, "more than %g of the characters are the most frequent 4-gram"},
    {"repeated-5-grams", REPETITION, .15, "more than %g of the characters are in repeated 5-grams"},
    {"repeated-6-grams", REPETITION, .14, "more than %g of the characters are in repeated 6-grams"},
    {"repeated-7-grams", REPETITION, .13, "more than %g of the characters are in repeated 7-grams"},
    {"repeated-8-grams", REPETITION, .12, "more than %g of the characters are in repeated 8-grams"},
    {"repeated-9-grams", REPETITION, .11, "more than %g of the characters are in repeated 9-grams"},
    {"repeated-10-grams", REPETITION, .10,
     "more than %g of the characters are in repeated 10-grams"},
    {"min-words", QUALITY, 50, "fewer than %g words"},
    {"max-words", QUALITY, 100000, "more than %g words"},
    {"min-word-length", QUALITY, 3, "words of fewer than %g characters on average"},
    {"max-word-length", QUALITY, 10, "words of more than %g characters on average"},
    {"hashes", QUALITY, .1, "more than %g # per word"},
    {"ellipses", QUALITY, .1, "more than %g ellipses per word"},
    {"bullet-lines", QUALITY, .9, "more than %g of the lines begin with a bullet"},
    {"ellipsis-lines", QUALITY, .3, "more than %g of the lines end with an ellipsis"},
    {"alphabetic-words", QUALITY, .8, "fewer than %g of the words have a letter"},
    {"stop-words", QUALITY, 2, "fewer than %g of the, be, to, of, and, that, have, with"},
    {"c4-line-end", "c4", 0, "lines without . ? ! or a quotation mark at their end"},
    {"c4-line-words", "c4", 3, "lines of fewer than %g words"},
    {"c4-long-word", "c4", 1000, "lines with a word of more than %g characters"},
    {"c4-javascript", "c4", 0, "lines that mention javascript"},
    {"c4-policy", "c4", 0, "lines about cookies and terms of use"},
    {"c4-citations", "c4", 0, "citations like [1] are removed"},
    {"c4-lorem-ipsum", "c4", 0, "lorem ipsum"},
    {"c4-curly-bracket", "c4", 0, "a curly bracket"},
    {"c4-sentences", "c4", 5, "fewer than %g sentences are left"},
    {"fineweb-line-end", "fineweb", .12, "fewer than %g of the lines end with a punctuation mark"},
    {"fineweb-short-lines", "fineweb", .67,
     "more than %g of the lines have 30 characters or fewer"},
    {"fineweb-repeated-characters", "fineweb", .01,
     "more than %g of the characters are in repeated lines"},
    {"fineweb-newlines", "fineweb", .3, "more than %g newlines per word"},
};

void rules_default(struct rules *rules)
{
    for (int i = 0; i < RULE_COUNT; i++) {
        rules->on[i] = i != RULE_C4_LINE_END;
        rules->value[i] = rule_table[i].value;
    }
}

int rules_switch(struct rules *rules, const char *name, int on, struct error *err)
{
    int found = strcmp(name, "none") == 0;

    for (int i = 0; i < RULE_COUNT; i++) {
        const struct rule_entry *entry = &rule_table[i];

        if (i <= RULE_EMPTY) /* cannot be switched */
            continue;
        if (strcmp(name, entry->name) == 0 || strcmp(name, entry->group) == 0 ||
            strcmp(name, "all") == 0 ||
            (strcmp(name, "gopher") == 0 && strncmp(entry->group, "gopher", 6) == 0)) {
            rules->on[i] = (unsigned char)on;
            found = 1;
        }
    }
    if (found)
        return 0;
    error_set_code(err, ERROR_USAGE, "there is no rule %.100s", name);
    return error_append(err, "; `megatron data filter --list-rules` lists all rules");
}

int rules_set(struct rules *rules, const char *word, struct error *err)
{
    const char *equal = strchr(word, '=');

    for (int i = 0; equal && i < RULE_COUNT; i++) {
        const struct rule_entry *entry = &rule_table[i];

        if (strlen(entry->name) != (size_t)(equal - word) ||
            strncmp(entry->name, word, (size_t)(equal - word)) != 0)
            continue;
        if (!strstr(entry->help, "%g")) {
            error_set_code(err, ERROR_USAGE, "rule %s has no threshold to set", entry->name);
            return error_append(err, "; `megatron data filter --list-rules` lists all rules");
        }
        rules->on[i] = 1;
        if (parse_double(entry->name, equal + 1, &rules->value[i], err) == 0)
            return 0;
        if (err)
            err->code = ERROR_USAGE;
        return -1;
    }
    error_set_code(err, ERROR_USAGE, "%.100s is not RULE=NUMBER with a known rule", word);
    return error_append(err, "; `megatron data filter --list-rules` lists all rules");
}

void counters_reset(struct counters *counters, size_t count)
{
    size_t wanted = 1024;

    while (wanted < 2 * count)
        wanted *= 2;
    if (wanted > counters->mask + 1 || !counters->items) {
        free(counters->items);
        counters->items = xcalloc(wanted, sizeof(*counters->items));
        counters->mask = wanted - 1;
        counters->shift = 64 - __builtin_ctzll(wanted);
        counters->stamp = 0;
    }
    if (++counters->stamp == 0) {
        memset(counters->items, 0, (counters->mask + 1) * sizeof(*counters->items));
        counters->stamp = 1;
    }
}

void rule_scratch_clear(struct rule_scratch *scratch)
{
    wordlist_clear(&scratch->words);
    free(scratch->counters.items);
    free(scratch->edited);
    free(scratch->folded);
    free(scratch->ngrams);
    memset(scratch, 0, sizeof(*scratch));
}

static int group_on(const struct rules *rules, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (rules->on[i])
            return 1;
    return 0;
}

void rules_apply(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                 size_t size, struct verdict *verdict)
{
    int rule = RULE_NONE;

    *verdict = (struct verdict){RULE_NONE, text, size, 0};
    wordlist_find(&scratch->words, text, size, WORDS_ALL);
    if (scratch->words.count == 0) {
        verdict->rule = RULE_EMPTY;
        return;
    }
    if (group_on(rules, RULE_REPEATED_PARAGRAPHS, RULE_REPEATED_10_GRAMS))
        rule = rules_repetition(rules, scratch, text, size);
    if (rule == RULE_NONE && group_on(rules, RULE_MIN_WORDS, RULE_STOP_WORDS))
        rule = rules_quality(rules, scratch, text, size);
    if (rule == RULE_NONE && group_on(rules, RULE_C4_LINE_END, RULE_C4_SENTENCES)) {
        rule = rules_c4(rules, scratch, text, size, verdict);
        if (rule == RULE_NONE && verdict->edited)
            wordlist_find(&scratch->words, verdict->text, verdict->size, WORDS_ALL);
        if (rule == RULE_NONE && scratch->words.count == 0)
            rule = RULE_EMPTY;
    }
    if (rule == RULE_NONE && group_on(rules, RULE_FINEWEB_LINE_END, RULE_FINEWEB_NEWLINES))
        rule = rules_fineweb(rules, scratch, verdict->text, verdict->size);
    verdict->rule = rule;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/option_rows.h"
#include "data/curate/tools.h"

#include <stdio.h>
#include <stdlib.h>

struct filter_options {
    struct data_words common;
    struct option_list rules, without, set, languages;
    const char *model, *email, *address;
    int list, add_language, mask;
    double threshold;
};

#define AT(field) offsetof(struct filter_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(common),
    DATA_OUTPUT_OPTIONS(common),
    DATA_DROPPED_OPTION(common),
    HEADING("Rules"),
    VALUES("rules", rules, "NAME...",
           "rules or groups: gopher, gopher-quality, gopher-repetition, c4, fineweb, all, none "
           "(default: all but c4-line-end, as FineWeb)"),
    VALUES("without-rules", without, "NAME...", "rules or groups to switch off"),
    VALUES("set", set, "RULE=NUMBER...", "change the threshold of a rule"),
    FLAG("list-rules", list, "print all rules with their thresholds, and exit"),
    HEADING("Language"),
    TEXT("language-model", model, "FILE",
         "fastText model that recognizes languages (lid.176.bin or .ftz)"),
    VALUES("languages", languages, "LABEL...",
           "keep texts in these languages (default: any that is recognized)"),
    QUANTITY("language-threshold", threshold, "P",
             "minimum probability of the language (default: 0.65)"),
    FLAG("add-language", add_language, "add members language and language_score to the documents"),
    HEADING("Personal data"),
    FLAG("mask-pii", mask, "replace e-mail addresses and public IPv4 addresses"),
    TEXT("mask-email", email, "TEXT",
         "replace e-mail addresses by TEXT (with --mask-pii: email@example.com)"),
    TEXT("mask-ip", address, "TEXT",
         "replace public IPv4 addresses by TEXT (with --mask-pii: 22.214.171.124)"),
    DATA_WORK_OPTIONS(common),
    {0},
};

static int take_rules(const struct filter_options *words, const struct options_result *result,
                      struct rules *rules, struct error *err)
{
    rules_default(rules);
    if (options_given(result, "rules"))
        rules_switch(rules, "all", 0, NULL);
    for (size_t i = 0; i < words->rules.count; i++)
        if (rules_switch(rules, words->rules.items[i], 1, err) < 0)
            return -1;
    for (size_t i = 0; i < words->without.count; i++)
        if (rules_switch(rules, words->without.items[i], 0, err) < 0)
            return -1;
    for (size_t i = 0; i < words->set.count; i++)
        if (rules_set(rules, words->set.items[i], err) < 0)
            return error_prefix(err, "--set");
    if (options_given(result, "language-threshold"))
        rules->value[RULE_LANGUAGE] = words->threshold;
    if (!(words->threshold >= 0 && words->threshold <= 1))
        return error_set_code(err, ERROR_USAGE, "--language-threshold=%g must be from 0 to 1",
                              words->threshold);
    if (!words->model && (words->languages.count > 0 || words->add_language))
        return error_set_code(
            err, ERROR_USAGE,
            "%s needs a fastText model; name one, such as lid.176.bin, with --language-model",
            words->languages.count > 0 ? "--languages" : "--add-language");
    return 0;
}

static void list_rules(const struct rules *rules)
{
    for (int i = RULE_EMPTY + 1; i < RULE_COUNT; i++) {
        printf("%-30s %-18s %-4s", rule_table[i].name, rule_table[i].group,
               rules->on[i] ? "on" : "off");
        printf(" drop: ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        printf(rule_table[i].help, rules->value[i]);
#pragma GCC diagnostic pop
        printf("\n");
    }
}

static int run(void *context, const struct options_result *result, struct error *err)
{
    struct filter_options *words = context;
    struct filter_config config = {.model = words->model,
                                   .languages = words->languages.items,
                                   .language_count = words->languages.count,
                                   .add_language = words->add_language};

    if (take_rules(words, result, &config.rules, err) < 0)
        return -1;
    if (words->list) {
        list_rules(&config.rules);
        return 0;
    }
    config.pii.email = words->email ? words->email : words->mask ? "email@example.com" : NULL;
    config.pii.address = words->address ? words->address : words->mask ? "22.214.171.124" : NULL;
    if (data_words_take(&words->common, "filter", &config.base, err) < 0)
        return -1;
    return filter_run(&config, err);
}

const struct command data_filter = {
    .name = "data filter",
    .usage = "Usage: megatron data filter --input FILE... --output FILE [OPTION...]\n"
             "Keep the documents that pass the rules of Gopher, C4 and FineWeb, in the languages "
             "you\nname; mask personal data.\n",
    .options = table,
    .size = sizeof(struct filter_options),
    .defaults = &(const struct filter_options){.common = DATA_DEFAULTS},
    .unexpected = "use --input to name files",
    .run = run,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "data/curate/tools.h"

#include <stdlib.h>

struct decontaminate_options {
    struct data_words common;
    struct option_list against, keys;
    int plain_text, rule;
    int64_t ngram, least, spare, margin, piece, pieces;
};

#define AT(field) offsetof(struct decontaminate_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(struct decontaminate_options, common),
    DATA_OUTPUT_OPTIONS(struct decontaminate_options, common),
    DATA_DROPPED_OPTION(struct decontaminate_options, common),
    {"Test sets", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"against", OPTION_LIST, AT(against), "FILE...", "test sets: JSON lines, plain or compressed",
     NULL, 0, 0},
    {"against-keys", OPTION_LIST, AT(keys), "KEY...",
     "JSON keys of the texts in a test set (default: text)", NULL, 0, 0},
    {"against-text", OPTION_FLAG, AT(plain_text), NULL, "each line of a test set is a text", NULL,
     0, 0},
    {"rule", OPTION_CHOICE, AT(rule), "RULE",
     "megatron: cut out 13-grams with 200 characters on each side (default); drop: drop documents "
     "with a 12-gram",
     "megatron|drop", 0, 0},
    {"ngram", OPTION_INT, AT(ngram), "N", "words of an n-gram (default: 13; drop: 12)", NULL, 1,
     NGRAM_MOST},
    {"min-ngram", OPTION_INT, AT(least), "N",
     "a shorter test counts as a whole if it has N words (default: 8; drop: the whole n-gram)",
     NULL, 1, NGRAM_MOST},
    {"spare", OPTION_INT, AT(spare), "N",
     "ignore n-grams that occur N times or more in the corpus; 0: ignore none (default: 10; drop: "
     "0)",
     NULL, 0, INT64_MAX},
    {"margin", OPTION_INT, AT(margin), "N", "characters to cut on each side (default: 200)", NULL,
     0, 1 << 30},
    {"min-piece", OPTION_INT, AT(piece), "N",
     "drop a remaining piece of a document if it has N characters or fewer (default: 200)", NULL, 0,
     1 << 30},
    {"max-pieces", OPTION_INT, AT(pieces), "N",
     "drop documents that would be split into more than N pieces (default: 10)", NULL, 1, 1 << 30},
    DATA_WORK_OPTIONS(struct decontaminate_options, common),
    DATA_END,
};

static int run(void *context, const struct options_result *result, struct error *err)
{
    static const char *const text[] = {"text"};
    struct decontaminate_options *words = context;
    int dropping = words->rule == DECONTAMINATE_DROP;
    struct decontaminate_config config = {
        .against = words->against.items,
        .against_count = words->against.count,
        .keys = words->keys.count > 0 ? words->keys.items : text,
        .key_count = words->keys.count > 0 ? words->keys.count : 1,
        .plain_text = words->plain_text,
        .rule = (enum decontaminate_rule)words->rule,
        .ngram = words->ngram > 0 ? words->ngram
                 : dropping       ? 12
                                  : 13,
        .spare = words->spare >= 0 ? words->spare
                 : dropping        ? 0
                                   : 10,
        .margin = words->margin,
        .piece = words->piece,
        .pieces = words->pieces,
    };

    (void)result;
    config.least = words->least > 0               ? words->least
                   : dropping || config.ngram < 8 ? config.ngram
                                                  : 8;
    if (words->against.count == 0)
        return error_set_code(err, ERROR_USAGE,
                              "--against is required: the files of the test sets");
    if (config.least > config.ngram)
        return error_set_code(err, ERROR_USAGE,
                              "--min-ngram=%lld is more than --ngram=%lld; lower it",
                              (long long)config.least, (long long)config.ngram);
    if (words->plain_text && words->keys.count > 0)
        return error_set_code(err, ERROR_USAGE,
                              "--against-text and --against-keys cannot be used together; drop "
                              "one");
    if (data_words_take(&words->common, "decontaminate", &config.base, err) < 0)
        return -1;
    return decontaminate_run(&config, err);
}

const struct command data_decontaminate = {
    .name = "data decontaminate",
    .usage = "Usage: megatron data decontaminate --input FILE... --against FILE... --output FILE "
             "[OPTION...]\n"
             "Remove texts of test sets from a corpus.\n",
    .options = table,
    .size = sizeof(struct decontaminate_options),
    .defaults =
        &(const struct decontaminate_options){
            .common = DATA_DEFAULTS, .spare = -1, .margin = 200, .piece = 200, .pieces = 10},
    .unexpected = "use --input to name files",
    .run = run,
};

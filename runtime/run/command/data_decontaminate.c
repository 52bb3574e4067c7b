/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/option_rows.h"
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
    DATA_INPUT_OPTIONS(common),
    DATA_OUTPUT_OPTIONS(common),
    DATA_DROPPED_OPTION(common),
    HEADING("Test sets"),
    VALUES("against", against, "FILE...", "test sets: JSON lines, plain or compressed"),
    VALUES("against-keys", keys, "KEY...", "JSON keys of the texts in a test set (default: text)"),
    FLAG("against-text", plain_text, "each line of a test set is a text",
         .refuses = "against-keys"),
    WORD("rule", rule, "RULE", "megatron|drop",
         "megatron: cut out 13-grams with 200 characters on each side; drop: drop documents with a "
         "12-gram"),
    RANGE("ngram", ngram, 1, NGRAM_MOST, "words of an n-gram (default: 13; drop: 12)"),
    RANGE(
        "min-ngram", least, 1, NGRAM_MOST,
        "a shorter test counts as a whole if it has N words (default: 8; drop: the whole n-gram)"),
    RANGE("spare", spare, 0, INT64_MAX,
          "ignore n-grams that occur N times or more in the corpus; 0: ignore none (default: 10; "
          "drop: 0)"),
    RANGE("margin", margin, 0, 1 << 30, "characters to cut on each side"),
    RANGE("min-piece", piece, 0, 1 << 30,
          "drop a remaining piece of a document if it has N characters or fewer"),
    RANGE("max-pieces", pieces, 1, 1 << 30,
          "drop documents that would be split into more than N pieces"),
    DATA_WORK_OPTIONS(common),
    {0},
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

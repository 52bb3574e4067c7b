/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data/tokenizer/tokenizer_options.h"
#include "data_common.h"
#include "data/curate/tools.h"

#include <string.h>

struct stats_options {
    struct data_words common;
    const char *model;
    int duplicates;
    struct tokenizer_config tokenizer;
};

#define AT(field) offsetof(struct stats_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(struct stats_options, common),
    {"output-prefix", OPTION_TEXT, DATA_AT(struct stats_options, common, output), "PREFIX",
     "write PREFIX.json and PREFIX.html", NULL, 0, 0},
    {"overwrite", OPTION_FLAG, DATA_AT(struct stats_options, common, overwrite), NULL,
     "replace output that exists", NULL, 0, 0},
    {"What to count", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"language-model", OPTION_TEXT, AT(model), "FILE",
     "count languages with this fastText model (lid.176.bin or .ftz)", NULL, 0, 0},
    {"no-duplicates", OPTION_UNFLAG, AT(duplicates), NULL,
     "do not count equal texts; the input is then read once, not twice", NULL, 0, 0},
    TOKENIZER_OPTIONS(struct stats_options, tokenizer),
    DATA_WORK_OPTIONS(struct stats_options, common),
    DATA_END,
};

static void init(void *context)
{
    struct stats_options *words = context;

    data_words_init(&words->common);
    words->duplicates = 1;
}

static void clear(void *context)
{
    data_words_clear(&((struct stats_options *)context)->common);
}

/* Tokens are counted where a tokenizer is named. */
static int wants_tokens(const struct options_result *result)
{
    static const char *const names[] = {"tokenizer-type", "tokenizer-model", "vocab-file",
                                        "merge-file"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (options_given(result, names[i]))
            return 1;
    return 0;
}

static int run(void *context, const struct options_result *result, struct error *err)
{
    struct stats_options *words = context;
    struct stats_config config = {.model = words->model,
                                  .duplicates = words->duplicates,
                                  .tokenizer = wants_tokens(result) ? &words->tokenizer : NULL};

    if (!words->common.output || !words->common.output[0] ||
        words->common.output[strlen(words->common.output) - 1] == '/')
        return error_set_code(
            err, ERROR_USAGE,
            "--output-prefix is required: a path and the beginning of a file name");
    if (data_words_take(&words->common, result, "stats", &config.base, err) < 0)
        return -1;
    return stats_run(&config, err);
}

const struct data_command data_stats = {
    .name = "stats",
    .usage = "--input FILE... --output-prefix PREFIX [OPTION...]",
    .summary =
        "Count documents, lengths, languages and duplicates; write JSON and a page with plots.",
    .table = table,
    .size = sizeof(struct stats_options),
    .init = init,
    .run = run,
    .clear = clear,
};

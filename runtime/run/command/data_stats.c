/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/core/option_rows.h"
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
    DATA_INPUT_OPTIONS(common),
    TEXT("output-prefix", common.output, "PREFIX", "write PREFIX.json and PREFIX.html"),
    DATA_OVERWRITE_OPTION(common),
    HEADING("What to count"),
    TEXT("language-model", model, "FILE",
         "count languages with this fastText model (lid.176.bin or .ftz)"),
    UNFLAG("no-duplicates", duplicates,
           "do not count equal texts; the input is then read once, not twice"),
    TOKENIZER_OPTIONS(tokenizer),
    DATA_WORK_OPTIONS(common),
    {0},
};

static int run(void *context, const struct options_result *result, struct error *err)
{
    struct stats_options *words = context;
    struct stats_config config = {.model = words->model,
                                  .duplicates = words->duplicates,
                                  .tokenizer =
                                      tokenizer_is_named(result) ? &words->tokenizer : NULL};

    if (data_check_prefix(words->common.output, err) < 0 ||
        data_words_take(&words->common, "stats", &config.base, err) < 0)
        return -1;
    return stats_run(&config, err);
}

const struct command data_stats = {
    .name = "data stats",
    .usage =
        "Usage: megatron data stats --input FILE... --output-prefix PREFIX [OPTION...]\n"
        "Count documents, lengths, languages and duplicates; write JSON and a page with plots.\n",
    .options = table,
    .size = sizeof(struct stats_options),
    .defaults = &(const struct stats_options){.common = DATA_DEFAULTS, .duplicates = 1},
    .unexpected = "use --input to name files",
    .run = run,
};

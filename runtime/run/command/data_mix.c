/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/option_rows.h"
#include "data/curate/tools.h"
#include "lib/parse.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

struct mix_options {
    struct data_words common;
    struct option_list weights, epochs;
    int unit;
    int64_t size, documents, seed;
};

#define AT(field) offsetof(struct mix_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(common),
    DATA_OUTPUT_OPTIONS(common),
    HEADING("Shares"),
    VALUES("weights", weights, "W...",
           "one per word of --input: its share of the output; they need not add up to 1",
           .refuses = "epochs"),
    VALUES("epochs", epochs, "E...",
           "one per word of --input instead: how often it is read (2.5, 0.1; default: once)"),
    WORD("weight-by", unit, "UNIT", "bytes|documents",
         "whether weights apply to bytes of text or to documents"),
    BYTES("size", size, "SIZE", 1, INT64_MAX,
          "bytes of text in the output, with --weights (default: as much as in the input)",
          .needs = "weights"),
    RANGE("documents", documents, 1, INT64_MAX,
          "number of documents in the output, with --weights and --weight-by documents",
          .needs = "weights"),
    RANGE("seed", seed, 0, INT64_MAX, "seed of the order"),
    DATA_WORK_OPTIONS(common),
    {0},
};

/* One number per source, which the caller frees; NULL with 'err' set if they are wrong.
 */
static double *take_numbers(const char *option, const struct option_list *list, size_t sources,
                            struct error *err)
{
    double *numbers, sum = 0;

    if (list->count != sources) {
        error_set_code(
            err, ERROR_USAGE,
            "%s has %zu numbers, but --input names %zu sources; give one number per source", option,
            list->count, sources);
        return NULL;
    }
    numbers = xcalloc(sources, sizeof(*numbers));
    for (size_t i = 0; i < sources; i++) {
        if (parse_double(option, list->items[i], &numbers[i], err) < 0 || numbers[i] < 0) {
            error_set_code(err, ERROR_USAGE, "%s: %.50s is not a number of 0 or more; correct it",
                           option, list->items[i]);
            free(numbers);
            return NULL;
        }
        sum += numbers[i];
    }
    if (sum <= 0) {
        error_set_code(err, ERROR_USAGE, "%s: all numbers are 0; raise one of them", option);
        free(numbers);
        return NULL;
    }
    return numbers;
}

static int check_words(const struct mix_options *words, struct error *err)
{
    if (words->size > 0 && words->unit == MIX_DOCUMENTS)
        return error_set_code(err, ERROR_USAGE,
                              "--size is in bytes of text; use --documents with --weight-by "
                              "documents");
    if (words->documents > 0 && words->unit == MIX_BYTES)
        return error_set_code(err, ERROR_USAGE,
                              "--documents needs --weight-by documents; add it, or use --size");
    if (words->common.input.count > MIX_SOURCES)
        return error_set_code(err, ERROR_USAGE,
                              "--input takes at most %d sources; merge some of them first",
                              MIX_SOURCES);
    return 0;
}

static int run(void *context, const struct options_result *result, struct error *err)
{
    struct mix_options *words = context;
    struct mix_config config = {.unit = (enum mix_unit)words->unit,
                                .size = words->size + words->documents,
                                .seed = (uint64_t)words->seed};
    double *weights = NULL, *epochs = NULL;
    int rc = data_words_take(&words->common, "mix", &config.base, err);

    (void)result;
    if (rc == 0)
        rc = check_words(words, err);
    if (rc == 0 && words->weights.count > 0) {
        weights = take_numbers("--weights", &words->weights, config.base.input_count, err);
        rc = weights ? 0 : -1;
    }
    if (rc == 0 && words->epochs.count > 0) {
        epochs = take_numbers("--epochs", &words->epochs, config.base.input_count, err);
        rc = epochs ? 0 : -1;
    }
    config.weights = weights;
    config.epochs = epochs;
    if (rc == 0)
        rc = mix_run(&config, err);
    free(weights);
    free(epochs);
    return rc;
}

const struct command data_mix = {
    .name = "data mix",
    .usage = "Usage: megatron data mix --input FILE... --weights W... --output FILE [OPTION...]\n"
             "Mix sources in given shares, up-sample the small ones, and shuffle all documents.\n",
    .options = table,
    .size = sizeof(struct mix_options),
    .defaults = &(const struct mix_options){.common = DATA_DEFAULTS, .seed = 1},
    .unexpected = "use --input to name files",
    .run = run,
};

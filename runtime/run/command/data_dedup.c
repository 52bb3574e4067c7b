/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "base/core/option_rows.h"
#include "data/curate/tools.h"

struct dedup_options {
    struct data_words common;
    int exact, preset, unit;
    int64_t bands, rows, ngram, seed, buckets;
    double jaccard;
};

#define AT(field) offsetof(struct dedup_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(common),
    DATA_OUTPUT_OPTIONS(common),
    DATA_DROPPED_OPTION(common),
    HEADING("Duplicates"),
    FLAG("exact", exact, "only texts that are equal byte for byte",
         .refuses = "preset|bands|rows|ngram|ngram-unit|jaccard"),
    WORD("preset", preset, "NAME", "fineweb|refinedweb|nemo",
         "fineweb: 14 bands of 8 rows, 5 words; refinedweb: 450 of 20, 5 words; nemo: 20 of 13, 24 "
         "characters"),
    RANGE("bands", bands, 1, 10000, "number of bands (default: the preset's)"),
    RANGE("rows", rows, 1, 1000, "rows per band (default: the preset's)"),
    RANGE("ngram", ngram, 1, 1000, "words or characters per shingle (default: the preset's)"),
    WORD("ngram-unit", unit, "UNIT", "words|characters",
         "unit of shingles (default: the preset's)"),
    QUANTITY("jaccard", jaccard, "S",
             "compare the shingles of documents that share a band, and drop only those with at "
             "least this similarity",
             .range = REAL_UP_TO_1),
    RANGE("seed", seed, 0, INT64_MAX, "seed of the hash functions"),
    RANGE("buckets", buckets, 1, SECTIONS_MOST,
          "number of parts of the index; more parts need less memory (default: by the size of the "
          "input)"),
    DATA_WORK_OPTIONS(common),
    {0},
};

static int run(void *context, const struct options_result *result, struct error *err)
{
    static const struct dedup_config presets[] = {
        {.bands = 14, .rows = 8, .ngram = 5, .unit = SHINGLE_WORDS},
        {.bands = 450, .rows = 20, .ngram = 5, .unit = SHINGLE_WORDS},
        {.bands = 20, .rows = 13, .ngram = 24, .unit = SHINGLE_CHARACTERS},
    };
    struct dedup_options *words = context;
    struct dedup_config config = presets[words->preset];

    (void)result;
    config.exact = words->exact;
    config.jaccard = words->jaccard;
    config.seed = (uint64_t)words->seed;
    config.buckets = (size_t)words->buckets;
    if (words->bands > 0)
        config.bands = (size_t)words->bands;
    if (words->rows > 0)
        config.rows = (size_t)words->rows;
    if (words->ngram > 0)
        config.ngram = (size_t)words->ngram;
    if (words->unit >= 0)
        config.unit = (enum shingle_unit)words->unit;
    if (data_words_take(&words->common, "dedup", &config.base, err) < 0)
        return -1;
    return dedup_run(&config, err);
}

const struct command data_dedup = {
    .name = "data dedup",
    .usage =
        "Usage: megatron data dedup --input FILE... --output FILE [OPTION...]\n"
        "Drop documents that repeat an earlier one, exactly or nearly (MinHash LSH). The first "
        "of\nthem in the order of the input stays.\n",
    .options = table,
    .size = sizeof(struct dedup_options),
    .defaults = &(const struct dedup_options){.common = DATA_DEFAULTS, .unit = -1, .seed = 1},
    .unexpected = "use --input to name files",
    .run = run,
};

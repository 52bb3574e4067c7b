/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data_common.h"
#include "data/curate/tools.h"

struct dedup_options {
    struct data_words common;
    int exact, preset, unit;
    int64_t bands, rows, ngram, seed, buckets;
    double jaccard;
};

#define AT(field) offsetof(struct dedup_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(struct dedup_options, common),
    DATA_OUTPUT_OPTIONS(struct dedup_options, common),
    DATA_DROPPED_OPTION(struct dedup_options, common),
    {"Duplicates", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"exact", OPTION_FLAG, AT(exact), NULL, "only texts that are equal byte for byte", NULL, 0, 0},
    {"preset", OPTION_CHOICE, AT(preset), "NAME",
     "fineweb: 14 bands of 8 rows, 5 words (default); refinedweb: 450 of 20, 5 words; nemo: 20 of "
     "13, 24 characters",
     "fineweb|refinedweb|nemo", 0, 0},
    {"bands", OPTION_INT, AT(bands), "N", "number of bands (default: the preset's)", NULL, 1,
     10000},
    {"rows", OPTION_INT, AT(rows), "N", "rows per band (default: the preset's)", NULL, 1, 1000},
    {"ngram", OPTION_INT, AT(ngram), "N", "words or characters per shingle (default: the preset's)",
     NULL, 1, 1000},
    {"ngram-unit", OPTION_CHOICE, AT(unit), "UNIT", "unit of shingles (default: the preset's)",
     "words|characters", 0, 0},
    {"jaccard", OPTION_REAL, AT(jaccard), "S",
     "compare the shingles of documents that share a band, and drop only those with at least this "
     "similarity",
     NULL, 0, 0},
    {"seed", OPTION_INT, AT(seed), "N", "seed of the hash functions (default: 1)", NULL, 0,
     INT64_MAX},
    {"buckets", OPTION_INT, AT(buckets), "N",
     "number of parts of the index; more parts need less memory (default: by the size of the "
     "input)",
     NULL, 1, SECTIONS_MOST},
    DATA_WORK_OPTIONS(struct dedup_options, common),
    DATA_END,
};

static int run(void *context, const struct options_result *result, struct error *err)
{
    static const struct dedup_config presets[] = {
        {.bands = 14, .rows = 8, .ngram = 5, .unit = SHINGLE_WORDS},
        {.bands = 450, .rows = 20, .ngram = 5, .unit = SHINGLE_WORDS},
        {.bands = 20, .rows = 13, .ngram = 24, .unit = SHINGLE_CHARACTERS},
    };
    static const char *const near[] = {"preset", "bands", "rows", "ngram", "ngram-unit", "jaccard"};
    struct dedup_options *words = context;
    struct dedup_config config = presets[words->preset];

    for (size_t i = 0; words->exact && i < sizeof(near) / sizeof(near[0]); i++)
        if (options_given(result, near[i]))
            return error_set_code(err, ERROR_USAGE,
                                  "--%s and --exact cannot be used together; drop one", near[i]);
    if (!(words->jaccard >= 0 && words->jaccard <= 1))
        return error_set_code(err, ERROR_USAGE, "--jaccard=%g must be greater than 0 and at most 1",
                              words->jaccard);
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

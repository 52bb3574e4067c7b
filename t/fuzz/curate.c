/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: hostile fastText models, and hostile texts for what judges, cuts and masks
 * them. The first byte of an input chooses. */
#include "fuzz.h"
#include "data/curate/fasttext.h"
#include "data/curate/ngrams.h"
#include "data/curate/pii.h"
#include "data/curate/rules.h"
#include "data/curate/shingle.h"

#include <string.h>

static char path[64];

/* What is read as a model must answer. */
static void try_model(const uint8_t *data, size_t size)
{
    static const char text[] = "The caf\xC3\xA9 der \xD0\xB4 __label__x </s> 12";
    struct error err = {.text = ""};
    struct fasttext *model;
    struct fasttext_scratch *scratch;
    double probability;

    if (!path[0])
        snprintf(path, sizeof(path), "%s/%ld", fuzz_place(), (long)getpid());
    fuzz_put(path, "", data, size);
    model = fasttext_open(path, &err);
    fuzz_check(model == NULL, &err);
    if (!model)
        return;
    scratch = fasttext_scratch_create(model);
    if (scratch) {
        fasttext_predict(model, scratch, text, sizeof(text) - 1, &probability);
        fasttext_predict(model, scratch, "", 0, &probability);
    }
    fasttext_scratch_destroy(scratch);
    fasttext_close(model);
}

/* Texts come from JSON and are UTF-8; these need not be. */
static void try_text(const uint8_t *data, size_t size)
{
    static const struct pii pii = {"E", "I"};
    struct pii_counts counts = {0, 0};
    struct rule_scratch scratch = {0};
    struct line_buffer out = {0};
    struct shingles shingles = {0};
    struct rules rules;
    struct verdict verdict;
    char *text = malloc(size ? size : 1);

    memcpy(text, data, size);
    rules_default(&rules);
    rules_switch(&rules, "all", 1, NULL);
    rules_switch(&rules, "gopher-quality", 0, NULL);
    rules_apply(&rules, &scratch, text, size, &verdict);
    rules_switch(&rules, "gopher", 0, NULL);
    rules_set(&rules, "c4-sentences=0", NULL);
    rules_apply(&rules, &scratch, text, size, &verdict);
    if (verdict.edited && verdict.size > size)
        abort();
    pii_mask(&pii, text, size, &out, &counts);
    out.size = 0;
    line_put_string(&out, text, size);
    shingles_make(&shingles, SHINGLE_WORDS, 5, text, size);
    shingles_make(&shingles, SHINGLE_CHARACTERS, 24, text, size);
    shingles_unique(&shingles);
    shingles_clear(&shingles);
    line_buffer_clear(&out);
    rule_scratch_clear(&scratch);
    free(text);
}

/* The first half of the input is a test, the whole a text. */
static void try_ngrams(const uint8_t *data, size_t size)
{
    struct ngrams ngrams;
    struct ngram_scratch scratch = {0};
    struct ngram_match match;
    const char *text = (const char *)data;

    ngrams_init(&ngrams, 4, 2, WORDS_REGEX);
    ngrams_add(&ngrams, &scratch, text, size / 2);
    while (ngrams_find(&ngrams, &scratch, text, size, &match)) {
        if (match.begin >= size)
            abort();
        text += match.begin + 1;
        size -= match.begin + 1;
    }
    ngram_scratch_clear(&scratch);
    ngrams_clear(&ngrams);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0] % 3) {
    case 0:
        try_model(data + 1, size - 1);
        break;
    case 1:
        try_text(data + 1, size - 1);
        break;
    default:
        try_ngrams(data + 1, size - 1);
    }
    return 0;
}

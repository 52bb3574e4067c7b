/* SPDX-License-Identifier: Apache-2.0 */
/* fastText's labels and probabilities. */
#include "config.h"
#include "data/curate/fasttext_private.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

/* Lines of fastText's own answers: model, label, probability, text. */
static void test_languages(const char *directory)
{
    char path[4096], line[1024], model_name[64] = "";
    struct fasttext *model = NULL;
    struct fasttext_scratch *scratch = NULL;
    struct error err = {.text = ""};
    FILE *file;

    snprintf(path, sizeof(path), "%s/data/languages.txt", directory);
    file = fopen(path, "r");
    ok(file != NULL, "%s", path);
    while (file && fgets(line, sizeof(line), file)) {
        char *name = strtok(line, "\t"), *label = strtok(NULL, "\t"), *score = strtok(NULL, "\t");
        char *text = strtok(NULL, "\n");
        double probability = -1;
        const char *got;

        if (strcmp(name, model_name) != 0) {
            fasttext_scratch_destroy(scratch);
            fasttext_close(model);
            snprintf(model_name, sizeof(model_name), "%s", name);
            snprintf(path, sizeof(path), "%s/data/%s", directory, name);
            model = fasttext_open(path, &err);
            ok(model != NULL, "%s %s", path, err.text);
            if (!model)
                break;
            scratch = fasttext_scratch_create(model);
        }
        got = fasttext_predict(model, scratch, text, strlen(text), &probability);
        if (!ok(got && strcmp(got, label) == 0 && fabs(probability - atof(score)) < 0.00015,
                "%s: %s %.4f for \"%s\"", name, got ? got : "nothing", probability, text))
            diag("fastText has %s %s", label, score);
    }
    fasttext_scratch_destroy(scratch);
    fasttext_close(model);
    if (file)
        fclose(file);
}

/* Of as many words as a model may have. */
static void test_table_sizes(void)
{
    static const struct {
        int64_t entries;
        size_t size;
    } rows[] = {{0, 16},
                {8, 16},
                {9, 32},
                {INT64_C(1) << 30, (size_t)1 << 31},
                {(INT64_C(1) << 30) + 1, (size_t)1 << 32},
                {INT32_MAX, (size_t)1 << 32}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(fasttext_table_size(rows[i].entries) == rows[i].size, "a table for %lld entries",
           (long long)rows[i].entries);
}

int main(void)
{
    test_table_sizes();
    test_languages(TOP_SRCDIR "/t");
    return done_testing();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Texts while they are generated: on a terminal they grow, elsewhere only whole ones are printed.
 */
#include "run/generate/output.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static const struct tokenizer *tokenizer;

/* What is printed after two of four tokens, and after all of them and a second text. */
static void show(int growing, int json, const char *first, const char *all)
{
    int32_t ids[] = {1, 2, 3, 4}, more[] = {5, 6};
    struct text texts[] = {{.ids = ids, .prompt = 1, .length = 2, .finish = FINISH_NOT},
                           {.ids = more, .prompt = 1, .length = 2, .finish = FINISH_LENGTH}};
    char *written = NULL;
    size_t size = 0;
    struct error err = {.text = ""};
    struct output output = {.tokenizer = tokenizer,
                            .stream = open_memstream(&written, &size),
                            .json = json,
                            .growing = growing,
                            .texts = texts,
                            .count = 2};

    ok(output_show(&output, &err) == 0 && strcmp(written, first) == 0, "%s, %s: unfinished",
       json ? "JSON" : "text", growing ? "growing" : "whole");
    texts[0].length = 4;
    texts[0].finish = FINISH_LENGTH;
    if (!ok(output_show(&output, &err) == 0 && strcmp(written, all) == 0, "  and complete"))
        diag("%s%s", written, err.text);
    fclose(output.stream);
    free(written);
}

int main(void)
{
    const struct tokenizer_config config = {.type = TOKENIZER_NULL, .vocab_size = 10};
    static const char json[] = "{\"prompt\": \"1\", \"text\": \" 2 3 4\", \"prompt_tokens\": [1], "
                               "\"tokens\": [2, 3, 4], \"finish\": \"length\"}\n"
                               "{\"prompt\": \"5\", \"text\": \" 6\", \"prompt_tokens\": [5], "
                               "\"tokens\": [6], \"finish\": \"length\"}\n";
    struct error err;
    struct tokenizer *created = tokenizer_create(&config, &err);

    tokenizer = created;
    show(1, 0, "1 2", "1 2 3 4\n\n5 6\n");
    show(0, 0, "", "1 2 3 4\n\n5 6\n");
    show(1, 1, "", json);
    tokenizer_destroy(created);
    return done_testing();
}

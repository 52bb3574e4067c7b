/* SPDX-License-Identifier: Apache-2.0 */
/* Every option of Megatron-LM, from core 0.4 to 0.20, is known: it works, is ignored with a note,
 * or is rejected with what to use instead. */
#include "run/train/arguments.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parse "--name" alone. Returns what is wrong with it: "" if nothing. */
static const char *text_of(const char *word, struct error *err)
{
    struct options_result result = {0};
    struct arguments *target = calloc(1, sizeof(*target));

    err->text[0] = '\0';
    if (target)
        options_parse(arguments_table, target, 1, &word, &result, err);
    options_result_clear(&result);
    for (const struct option *row = arguments_table; target && row->name; row++)
        if (row->type == OPTION_LIST)
            free(((struct option_list *)((char *)target + row->offset))->items);
    free(target);
    return err->text;
}

int main(void)
{
    FILE *file = fopen(TOP_SRCDIR "/t/unit/runtime/run/train/megatron-options.txt", "r");
    char name[128], word[160];
    struct error err;
    int count = 0, unknown = 0;

    while (file && fscanf(file, "%127s", name) == 1) {
        snprintf(word, sizeof(word), "--%s", name);
        count++;
        if (strncmp(text_of(word, &err), "unknown option", 14) == 0) {
            printf("# %s\n", err.text);
            unknown++;
        }
    }
    if (file)
        fclose(file);
    ok(count > 700, "the names of Megatron-LM's options");
    is_int(unknown, 0, "none of them is unknown");
    is(text_of("--sft-tokenizer-prompt-format", &err),
       "--sft-tokenizer-prompt-format is an option of Megatron-LM that does not exist here; models "
       "learn to "
       "predict the next token: reinforcement learning, distillation and SFT are not available",
       "a pattern names the option that was given");
    is(text_of("--flubber", &err), "unknown option --flubber; --help lists all",
       "others are unknown");
    return done_testing();
}

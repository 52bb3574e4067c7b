#include "generate.h"
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct generate_options, field)

/* clang-format off */
static const struct option options[] = {
    {"load", OPTION_TEXT, AT(load), "DIR", "checkpoints, or a Hugging Face folder", 0, 0, 0},

    {"Prompts", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"prompt", OPTION_TEXTS, AT(prompt), "TEXT", "a text to continue; may be given again", 0, 0, 0},
    {"prompts", OPTION_LIST, AT(prompts), "TEXT ...", "several at once", 0, 0, 0},
    {"prompt-file", OPTION_TEXT, AT(prompt_file), "FILE", "one text per line; -: standard input", 0, 0, 0},

    {"Texts", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"num-tokens-to-generate", OPTION_INT, AT(tokens), "N", "tokens to write behind each prompt (30)", 0, 1, INT32_MAX},
    {"num-tokens", OPTION_INT, AT(tokens), "N", "the same", 0, 1, INT32_MAX},
    {"out-seq-length", OPTION_INT, AT(out_seq_length), "N", "tokens of each text, with its prompt", 0, 1, INT32_MAX},
    {"ignore-eod", OPTION_FLAG, AT(ignore_eod), 0, "write on behind the end of a document", 0, 0, 0},
    {"eod-id", OPTION_INT, AT(eod_id), "N", "the token that ends a text (the tokenizer's)", 0, 0, INT32_MAX},
    {"micro-batch-size", OPTION_INT, AT(texts), "N", "texts written side by side (8 at most)", 0, 1, 65536},
    {"json", OPTION_FLAG, AT(json), 0, "a line of JSON for each text", 0, 0, 0},

    {"Sampling", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"greedy", OPTION_FLAG, AT(greedy), 0, "the most likely token each time (default)", 0, 0, 0},
    {"temperature", OPTION_REAL, AT(temperature), "X", "draw tokens; flatter above 1 (1.0; 0: greedy)", 0, 0, 0},
    {"top-k", OPTION_INT, AT(top_k), "N", "from the N most likely ones (0: all)", 0, 0, INT32_MAX},
    {"top-p", OPTION_REAL, AT(top_p), "X", "from the likeliest with probability X together (0: all)", 0, 0, 0},
    {"seed", OPTION_INT, AT(seed), "N", "of the drawing (1234)", 0, 0, INT64_MAX},

    TOKENIZER_OPTIONS(struct generate_options, tokenizer),

    {"Layout and device", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"tensor-model-parallel-size", OPTION_INT, AT(tp), "N", "ranks that share each layer (1)", 0, 1, INT32_MAX},
    {"pipeline-model-parallel-size", OPTION_INT, AT(pp), "N", "stages of layers (1)", 0, 1, INT32_MAX},
    {"distributed-timeout-minutes", OPTION_REAL, AT(timeout_minutes), "X", "deadline of every wait (10)", 0, 0, 0},
    {"bf16", OPTION_FLAG, AT(bf16), 0, "weights and activations in bfloat16 (GPU)", 0, 0, 0},
    {"fp16", OPTION_FLAG, AT(fp16), 0, "in fp16 (GPU)", 0, 0, 0},
    {"device", OPTION_CHOICE, AT(device), 0, "where to compute (cuda where there is a GPU)", "auto|cpu|cuda", 0, 0},
    {"cpu-threads", OPTION_INT, AT(threads), "N", "threads of a CPU rank (its cores)", 0, 1, INT32_MAX},
    {0, 0, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */

static int run(struct generate_options *given, const struct options_result *result,
               struct error *err)
{
    static const char *const names[] = {"tokenizer-type", "tokenizer-model", "vocab-file",
                                        "merge-file"};
    struct world world;

    if (result->word_count > 0) {
        error_set(err, "unexpected word %.100s; a prompt is given with --prompt", result->words[0]);
        return world_say_once(0, err);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        given->tokenizer_given |= options_given(result, names[i]);
    if (world_read(&world, err) < 0)
        return -1;
    if (strcmp(world.source, "default") != 0 && strcmp(world.source, "RANK") != 0 &&
        world_die_with_parent(err) < 0)
        return -1;
    return generate_run(given, &world, err);
}

static int run_generate(int argc, const char *const *argv, struct error *err)
{
    struct generate_options given;
    struct options_result result;
    int rc;

    generate_default(&given);
    rc = options_parse(options, &given, argc, argv, &result, err);
    if (rc == 0 && result.help) {
        printf("Usage: megatron generate --load DIR --prompt TEXT [OPTION...]\n"
               "Continue texts with a trained model; one process, or one per rank under srun or "
               "mpirun.\n\n");
        options_print(options, stdout);
    } else if (rc == 0) {
        rc = run(&given, &result, err);
    } else {
        world_say_once(0, err);
    }
    options_result_clear(&result);
    free(given.prompt.items);
    free(given.prompts.items);
    return rc;
}

const struct command command_generate = {
    .name = "generate",
    .summary = "continue texts with a trained model",
    .run = run_generate,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "run/generate/fill_mask.h"
#include "data/tokenizer/tokenizer_options.h"
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>

#define AT(field) offsetof(struct fill_mask_options, field)

/* clang-format off */
static const struct option options[] = {
    {"load", OPTION_TEXT, AT(base.load), "DIR", "checkpoint directory or Hugging Face folder of a masked language model", 0, 0, 0},

    {"Prompts", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"prompt", OPTION_TEXTS, AT(base.prompt), "TEXT", "text with <mask> (BERT: [MASK]) in it; can be repeated", 0, 0, 0},
    {"prompts", OPTION_LIST, AT(base.prompts), "TEXT ...", "several prompts", 0, 0, 0},
    {"prompt-file", OPTION_TEXT, AT(base.prompt_file), "FILE", "file with one prompt per line; - reads standard input", 0, 0, 0},
    {"mask-id", OPTION_INT, AT(mask_id), "N", "token id of the mask (default: the tokenizer's)", 0, 0, INT32_MAX},

    {"Output", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"top-k", OPTION_INT, AT(base.top_k), "N", "number of tokens to show for each mask (default: 5)", 0, 1, INT32_MAX},
    {"pseudo-perplexity", OPTION_FLAG, AT(pseudo_perplexity), 0, "mask each token of the texts in turn and print how well the model predicts them", 0, 0, 0},
    {"json", OPTION_FLAG, AT(base.json), 0, "print one JSON value per line and prompt", 0, 0, 0},

    TOKENIZER_OPTIONS(struct fill_mask_options, base.tokenizer),

    {"Device", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"bf16", OPTION_FLAG, AT(base.bf16), 0, "run in bfloat16 (GPU only)", 0, 0, 0},
    {"fp16", OPTION_FLAG, AT(base.fp16), 0, "run in fp16 (GPU only)", 0, 0, 0},
    {"device", OPTION_CHOICE, AT(base.device), 0, "device to compute on (default: cuda if the node has a GPU)", "auto|cpu|cuda", 0, 0},
    {"cpu-threads", OPTION_INT, AT(base.threads), "N", "threads on CPUs (default: all cores)", 0, 1, 4096},
    {0, 0, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */

static int run_fill_mask(void *context, const struct options_result *result, struct error *err)
{
    struct fill_mask_options *given = context;
    static const char *const names[] = {"tokenizer-type", "tokenizer-model", "vocab-file",
                                        "merge-file"};
    struct world world;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        given->base.tokenizer_given |= options_given(result, names[i]);
    if (!given->base.load)
        return error_set_code(
            err, ERROR_USAGE,
            "--load is required: a checkpoint directory or a Hugging Face folder");
    if (given->base.bf16 && given->base.fp16)
        return error_set_code(err, ERROR_USAGE,
                              "--fp16 and --bf16 cannot be used together; drop one");
    return world_read(&world, err) < 0 ? -1 : fill_mask_run(given, &world, err);
}

const struct command command_fill_mask = {
    .name = "fill-mask",
    .summary = "show what a masked language model puts in place of <mask>",
    .usage = "Usage: megatron fill-mask --load DIR --prompt TEXT [OPTION...]\n"
             "Show what a masked language model puts in place of <mask>.\n",
    .options = options,
    .size = sizeof(struct fill_mask_options),
    .defaults = &(const struct fill_mask_options){.base = GENERATE_DEFAULTS(5), .mask_id = -1},
    .unexpected = "use --prompt to pass a prompt",
    .run = run_fill_mask,
};

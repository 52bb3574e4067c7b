/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/option_rows.h"
#include "run/generate/fill_mask.h"
#include "data/tokenizer/tokenizer_options.h"
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>

#define AT(field) offsetof(struct fill_mask_options, field)

/* clang-format off */
static const struct option options[] = {
    TEXT("load", base.load, "DIR", "checkpoint directory or Hugging Face folder of a masked language model"),

    HEADING("Prompts"),
    TEXTS("prompt", base.prompt, "TEXT", "text with <mask> (BERT: [MASK]) in it; can be repeated"),
    VALUES("prompts", base.prompts, "TEXT ...", "several prompts"),
    TEXT("prompt-file", base.prompt_file, "FILE", "file with one prompt per line; - reads standard input"),
    RANGE("mask-id", mask_id, 0, INT32_MAX, "token id of the mask (default: the tokenizer's)"),

    HEADING("Output"),
    RANGE("top-k", base.top_k, 1, INT32_MAX, "number of tokens to show for each mask"),
    FLAG("pseudo-perplexity", pseudo_perplexity, "mask each token of the texts in turn and print how well the model predicts them"),
    FLAG("json", base.json, "print one JSON value per line and prompt"),

    TOKENIZER_OPTIONS(base.tokenizer),

    HEADING("Device"),
    FLAG("bf16", base.bf16, "run in bfloat16 (GPU only)"),
    FLAG("fp16", base.fp16, "run in fp16 (GPU only)", .refuses = "bf16"),
    CHOICE("device", base.device, "auto|cpu|cuda", "device to compute on", .otherwise = "cuda if the node has a GPU"),
    RANGE("cpu-threads", base.threads, 1, 4096, "threads on CPUs (default: all cores)"),
    {0},
};
/* clang-format on */

static int run_fill_mask(void *context, const struct options_result *result, struct error *err)
{
    struct fill_mask_options *given = context;
    struct world world;

    given->base.tokenizer_given = tokenizer_is_named(result);
    if (!given->base.load)
        return error_set_code(
            err, ERROR_USAGE,
            "--load is required: a checkpoint directory or a Hugging Face folder");
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

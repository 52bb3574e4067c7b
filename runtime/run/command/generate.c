/* SPDX-License-Identifier: Apache-2.0 */
#include "run/generate/generate.h"
#include "data/tokenizer/tokenizer_options.h"
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct generate_options, field)

/* clang-format off */
static const struct option options[] = {
    {"load", OPTION_TEXT, AT(load), "DIR", "checkpoint directory or Hugging Face folder", 0, 0, 0},

    {"Prompts", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"prompt", OPTION_TEXTS, AT(prompt), "TEXT", "prompt to continue; can be repeated", 0, 0, 0},
    {"prompts", OPTION_LIST, AT(prompts), "TEXT ...", "several prompts", 0, 0, 0},
    {"prompt-file", OPTION_TEXT, AT(prompt_file), "FILE", "file with one prompt per line; - reads standard input", 0, 0, 0},

    {"Texts", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"num-tokens-to-generate", OPTION_INT, AT(tokens), "N", "number of tokens to generate per prompt (default: 30)", 0, 1, INT32_MAX},
    {"num-tokens", OPTION_INT, AT(tokens), "N", "same as --num-tokens-to-generate", 0, 1, INT32_MAX},
    {"out-seq-length", OPTION_INT, AT(out_seq_length), "N", "maximum sequence length, prompt included", 0, 1, INT32_MAX},
    {"ignore-eod", OPTION_FLAG, AT(ignore_eod), 0, "continue after the end-of-document token", 0, 0, 0},
    {"eod-id", OPTION_INT, AT(eod_id), "N", "token id that ends a text (default: the tokenizer's)", 0, 0, INT32_MAX},
    {"micro-batch-size", OPTION_INT, AT(texts), "N", "prompts generated together (default: at most 8)", 0, 1, 65536},
    {"json", OPTION_FLAG, AT(json), 0, "print one JSON object per line and prompt", 0, 0, 0},
    {"logits", OPTION_TEXT, AT(logits), "FILE", "write the logits after each token to a safetensors file", 0, 0, 0},

    {"Sampling", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"greedy", OPTION_FLAG, AT(greedy), 0, "always take the most likely token (default)", 0, 0, 0},
    {"temperature", OPTION_REAL, AT(temperature), "X", "sampling temperature (default: 1.0; 0 means greedy)", 0, 0, 0},
    {"top-k", OPTION_INT, AT(top_k), "N", "sample from the N most likely tokens (default: 0, all)", 0, 0, INT32_MAX},
    {"top-p", OPTION_REAL, AT(top_p), "X", "nucleus sampling: the most likely tokens with total probability X (default: 0, all)", 0, 0, 0},
    {"seed", OPTION_INT, AT(seed), "N", "random seed of sampling (default: 1234)", 0, 0, INT64_MAX},

    TOKENIZER_OPTIONS(struct generate_options, tokenizer),

    {"Layout and device", OPTION_HEADING, 0, 0, 0, 0, 0, 0},
    {"tensor-model-parallel-size", OPTION_INT, AT(tp), "N", "degree of tensor model parallelism (default: 1)", 0, 1, INT32_MAX},
    {"pipeline-model-parallel-size", OPTION_INT, AT(pp), "N", "degree of pipeline model parallelism (default: 1)", 0, 1, INT32_MAX},
    {"distributed-timeout-minutes", OPTION_REAL, AT(timeout_minutes), "X", "timeout of distributed operations (default: 10)", 0, 0, 0},
    {"bf16", OPTION_FLAG, AT(bf16), 0, "run in bfloat16 (GPU only)", 0, 0, 0},
    {"fp16", OPTION_FLAG, AT(fp16), 0, "run in fp16 (GPU only)", 0, 0, 0},
    {"device", OPTION_CHOICE, AT(device), 0, "device to compute on (default: cuda if the node has a GPU)", "auto|cpu|cuda", 0, 0},
    {"cpu-threads", OPTION_INT, AT(threads), "N", "threads per CPU rank (default: its cores)", 0, 1, 4096},
    {0, 0, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */

static int check(const struct generate_options *o, struct error *err)
{
    int heated = !isnan(o->temperature), with_top_p = !isnan(o->top_p);

    if (!o->load)
        return error_set(err,
                         "--load is required: a checkpoint directory or a Hugging Face folder");
    if (o->greedy && (heated || o->top_k != -1 || with_top_p))
        return error_set(err,
                         "--greedy cannot be used with --temperature, --top-k or --top-p; drop it");
    if (heated && !(o->temperature >= 0 && o->temperature < 1e6))
        return error_set(err, "--temperature=%g must be 0 or greater", o->temperature);
    if (with_top_p && !(o->top_p >= 0 && o->top_p <= 1))
        return error_set(err, "--top-p=%g must be between 0 and 1", o->top_p);
    if (o->bf16 && o->fp16)
        return error_set(err, "--fp16 and --bf16 cannot be used together; drop one");
    if (!(o->timeout_minutes > 0))
        return error_set(err, "--distributed-timeout-minutes=%g must be greater than 0",
                         o->timeout_minutes);
    return 0;
}

static int run_generate(void *context, const struct options_result *result, struct error *err)
{
    struct generate_options *given = context;
    static const char *const names[] = {"tokenizer-type", "tokenizer-model", "vocab-file",
                                        "merge-file"};
    struct world world;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        given->tokenizer_given |= options_given(result, names[i]);
    if (world_read(&world, err) < 0)
        return -1;
    if (strcmp(world.source, "default") != 0 && strcmp(world.source, "RANK") != 0 &&
        world_die_with_parent(err) < 0)
        return -1;
    if (check(given, err) < 0) {
        err->code = ERROR_USAGE;
        return world_say_once(0, err);
    }
    return generate_run(given, &world, err);
}

const struct command command_generate = {
    .name = "generate",
    .summary = "generate text with a trained model",
    .usage = "Usage: megatron generate --load DIR --prompt TEXT [OPTION...]\n"
             "Generate text with a trained model, in one process or with one process per rank "
             "(srun, mpirun).\n",
    .options = options,
    .size = sizeof(struct generate_options),
    .defaults = &(const struct generate_options)GENERATE_DEFAULTS(-1),
    .unexpected = "use --prompt to pass a prompt",
    .reported_once = true,
    .run = run_generate,
};

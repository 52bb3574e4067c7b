/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/option_rows.h"
#include "run/generate/generate.h"
#include "data/tokenizer/tokenizer_options.h"
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct generate_options, field)

/* clang-format off */
static const struct option options[] = {
    TEXT("load", load, "DIR", "checkpoint directory or Hugging Face folder"),

    HEADING("Prompts"),
    TEXTS("prompt", prompt, "TEXT", "prompt to continue; can be repeated"),
    VALUES("prompts", prompts, "TEXT ...", "several prompts"),
    TEXT("prompt-file", prompt_file, "FILE", "file with one prompt per line; - reads standard input"),

    HEADING("Texts"),
    RANGE("num-tokens-to-generate", tokens, 1, INT32_MAX, "number of tokens to generate per prompt"),
    ALIAS("num-tokens", "num-tokens-to-generate"),
    RANGE("out-seq-length", out_seq_length, 1, INT32_MAX, "maximum sequence length, prompt included"),
    FLAG("ignore-eod", ignore_eod, "continue after the end-of-document token"),
    RANGE("eod-id", eod_id, 0, INT32_MAX, "token id that ends a text (default: the tokenizer's)"),
    RANGE("micro-batch-size", texts, 1, 65536, "prompts generated together (default: at most 8)"),
    FLAG("json", json, "print one JSON object per line and prompt"),
    TEXT("logits", logits, "FILE", "write the logits after each token to a safetensors file"),

    HEADING("Sampling"),
    FLAG("greedy", greedy, "always take the most likely token (default)", .refuses = "temperature|top-k|top-p"),
    REAL("temperature", temperature, "sampling temperature (default: 1.0; 0 means greedy)", .range = REAL_NOT_NEGATIVE),
    RANGE("top-k", top_k, 0, INT32_MAX, "sample from the N most likely tokens", .otherwise = "0, all"),
    REAL("top-p", top_p, "nucleus sampling: the most likely tokens with total probability X (default: 0, all)", .range = REAL_FRACTION),
    RANGE("seed", seed, 0, INT64_MAX, "random seed of sampling"),

    TOKENIZER_OPTIONS(tokenizer),

    HEADING("Layout and device"),
    RANGE("tensor-model-parallel-size", tp, 1, INT32_MAX, "degree of tensor model parallelism (default: 1)"),
    RANGE("pipeline-model-parallel-size", pp, 1, INT32_MAX, "degree of pipeline model parallelism (default: 1)"),
    REAL("distributed-timeout-minutes", timeout_minutes, "timeout of distributed operations", .range = REAL_POSITIVE),
    FLAG("bf16", bf16, "run in bfloat16 (GPU only)"),
    FLAG("fp16", fp16, "run in fp16 (GPU only)", .refuses = "bf16"),
    CHOICE("device", device, "auto|cpu|cuda", "device to compute on", .otherwise = "cuda if the node has a GPU"),
    RANGE("cpu-threads", threads, 1, 4096, "threads per CPU rank (default: its cores)"),
    {0},
};
/* clang-format on */

static int run_generate(void *context, const struct options_result *result, struct error *err)
{
    struct generate_options *given = context;
    struct world world;

    given->tokenizer_given = tokenizer_is_named(result);
    if (world_read(&world, err) < 0)
        return -1;
    if (strcmp(world.source, "default") != 0 && strcmp(world.source, "RANK") != 0 &&
        world_die_with_parent(err) < 0)
        return -1;
    if (given->load)
        return generate_run(given, &world, err);
    error_set_code(err, ERROR_USAGE,
                   "--load is required: a checkpoint directory or a Hugging Face folder");
    return world_say_once(0, err);
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

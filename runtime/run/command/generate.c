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
    FLAG("greedy", greedy, "always take the most likely token (default)"),
    REAL("temperature", temperature, "sampling temperature (default: 1.0; 0 means greedy)"),
    RANGE("top-k", top_k, 0, INT32_MAX, "sample from the N most likely tokens", .otherwise = "0, all"),
    REAL("top-p", top_p, "nucleus sampling: the most likely tokens with total probability X (default: 0, all)"),
    RANGE("seed", seed, 0, INT64_MAX, "random seed of sampling"),

    TOKENIZER_OPTIONS(tokenizer),

    HEADING("Layout and device"),
    RANGE("tensor-model-parallel-size", tp, 1, INT32_MAX, "degree of tensor model parallelism (default: 1)"),
    RANGE("pipeline-model-parallel-size", pp, 1, INT32_MAX, "degree of pipeline model parallelism (default: 1)"),
    REAL("distributed-timeout-minutes", timeout_minutes, "timeout of distributed operations"),
    FLAG("bf16", bf16, "run in bfloat16 (GPU only)"),
    FLAG("fp16", fp16, "run in fp16 (GPU only)"),
    CHOICE("device", device, "auto|cpu|cuda", "device to compute on", .otherwise = "cuda if the node has a GPU"),
    RANGE("cpu-threads", threads, 1, 4096, "threads per CPU rank (default: its cores)"),
    {0},
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

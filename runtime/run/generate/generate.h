/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron generate`: from weights and prompts to texts.
 *
 *     struct generate_options options;
 *
 *     generate_default(&options);
 *     options.load = "checkpoints/7b";
 *     options.prompt_file = "-";
 *     generate_run(&options, &world, err);                    on all ranks
 */
#ifndef MEGATRON_GENERATE_H
#define MEGATRON_GENERATE_H

#include <math.h>

#include "base/core/option.h"
#include "engine/parallel/ranks.h"
#include "data/tokenizer/tokenizer.h"

/* The values of the options; a negative number or NULL means not given. */
struct generate_options {
    const char *load;
    struct option_list prompt, prompts;
    const char *prompt_file; /* "-": standard input */
    const char *logits;      /* a file for logits.h; fill-mask does not have it */
    int64_t tokens, out_seq_length, texts, eod_id, seed, top_k;
    double temperature, top_p, timeout_minutes;
    int greedy, ignore_eod, json;
    int bf16, fp16, device;
    int64_t threads, tp, pp;
    struct tokenizer_config tokenizer;
    int tokenizer_given; /* a tokenizer option was given */
};

/* The values before the options are read; NAN is one that no option can have. */
#define GENERATE_DEFAULTS(top)                                                         \
    {                                                                                  \
        .tokens = 30, .out_seq_length = -1, .texts = -1, .eod_id = -1, .top_k = (top), \
        .seed = 1234, .temperature = NAN, .top_p = NAN, .timeout_minutes = 10          \
    }

/* Write the texts to standard output on rank 0, and the throughput to standard error. Collective
 * over the world's ranks. Returns 0 or -1. */
int generate_run(const struct generate_options *options, const struct world *world,
                 struct error *err);

#endif

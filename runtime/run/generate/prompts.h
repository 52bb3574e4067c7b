/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts: read and tokenized by rank 0, then broadcast. */
#ifndef MEGATRON_PROMPTS_H
#define MEGATRON_PROMPTS_H

#include "generate.h"
#include "generator.h"
#include "run/exchange/origin.h"

struct prompts {
    struct text *texts;
    int64_t count;
    int64_t longest;    /* maximum length of any text, in tokens */
    int64_t vocabulary; /* token ids that the tokenizer can decode */
    int64_t stops[STOPS];
    int stop_count;
    struct tokenizer *tokenizer; /* on rank 0 only */
};

/* The prompts as given; those of a file point into 'file'. */
struct lines {
    const char **items;
    size_t count, room;
    char *file;
};

/* The prompts of the options, of their file or of standard input. Returns 0 or -1; lines_clear in
 * both cases. */
int prompts_lines(struct lines *lines, const struct generate_options *options, struct error *err);
void lines_clear(struct lines *lines);

/* The tokenizer that the options name, or the one next to the weights. NULL with 'err' set. */
struct tokenizer *prompts_tokenizer(const struct generate_options *options,
                                    const struct origin *origin, struct error *err);

/* Read the prompts given by the options, with the tokenizer given by the options or found next to
 * the weights. Collective. Returns 0 or -1; call prompts_clear in both cases. */
int prompts_read(struct prompts *prompts, const struct generate_options *options,
                 const struct origin *origin, struct comm *comm, struct error *err);
void prompts_clear(struct prompts *prompts);

#endif

/* Prompts: read and turned into tokens by rank 0, given to all. */
#ifndef MEGATRON_PROMPTS_H
#define MEGATRON_PROMPTS_H

#include "generate.h"
#include "generator.h"
#include "origin.h"

struct prompts {
    struct text *texts;
    int64_t count;
    int64_t longest;    /* limit of any text, in tokens */
    int64_t vocabulary; /* tokens that can be read again as text */
    int64_t stops[STOPS];
    int stop_count;
    struct tokenizer *tokenizer; /* on rank 0 only */
};

/* Read the prompts that the options name, with the tokenizer that they name or that lies beside the
 * weights. Collective. Returns 0 or -1; prompts_clear in both cases. */
int prompts_read(struct prompts *prompts, const struct generate_options *options,
                 const struct origin *origin, struct comm *comm, struct error *err);
void prompts_clear(struct prompts *prompts);

#endif

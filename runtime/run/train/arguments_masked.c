/* SPDX-License-Identifier: Apache-2.0 */
/* The options of masked language models: RoBERTa, BERT and Megatron's BERT. */
#include "arguments_private.h"

#include <inttypes.h>
#include <math.h>

int arguments_masked_preset(struct arguments *a, const struct options_result *given,
                            const struct model_shape *shape)
{
    enum model_family family = shape->family;
    int bert = family == MODEL_BERT || family == MODEL_MEGATRON_BERT;

    if (!bert && family != MODEL_ROBERTA)
        return 0;
    a->masked = 1;
    a->post_norm |= family != MODEL_MEGATRON_BERT;
    a->gelu_erf |= family != MODEL_MEGATRON_BERT;
    if (!options_given(given, "norm-epsilon") && !options_given(given, "layernorm-epsilon"))
        a->norm_epsilon = family == MODEL_BERT ? 1e-12 : 1e-5;
    if (!options_given(given, "bert-no-binary-head") && bert)
        a->binary_head = 1;
    if (a->token_types < 0)
        a->token_types = a->binary_head ? 2 : family == MODEL_BERT ? 2 : 0;
    if (a->position_offset < 0)
        a->position_offset = family == MODEL_ROBERTA ? 2 : 0;
    if (!options_given(given, "max-position-embeddings"))
        a->max_position_embeddings = shape->sequence + a->position_offset;
    return 1;
}

/* Options that only a masked model has. */
static int check_causal(const struct arguments *a, struct error *err)
{
    const struct {
        const char *name;
        int given;
    } rows[] = {
        {"post-norm", a->post_norm},
        {"num-token-types", a->token_types > 0},
        {"position-offset", a->position_offset > 0},
        {"bert-binary-head", a->binary_head},
        {"max-masked-tokens", a->masked_max > 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].given)
            return error_set(err, "--%s requires --masked-lm; add it", rows[i].name);
    return 0;
}

/* Options that only a causal model has: a masked one would ignore them, or compute something that
 * nobody means. */
static int check_bidirectional(const struct arguments *a, struct error *err)
{
    static const char head[] = "whose MLP has GELU and whose decoder is tied to the embedding";
    static const char norms[] = "whose norms are before each branch or, with --post-norm, after it";
    const struct {
        const char *name, *reason;
        int given;
    } rows[] = {
        {"geglu", head, a->geglu},
        {"quick-geglu", head, a->quick_geglu},
        {"swiglu", head, a->swiglu},
        {"untie-embeddings-and-output-weights", head, a->untie},
        {"norm-placement", norms, a->blocks.branch_norm != BRANCH_NORM_INPUT},
        {"use-parallel-residual", norms, a->blocks.parallel_residual},
        {"final-logit-softcapping", "whose head has no soft cap", a->blocks.logit_softcap != 0},
        {"window-size", "whose tokens see all others", a->blocks.window != 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].given)
            return error_set(err, "--%s cannot be used with a masked language model, %s; drop it",
                             rows[i].name, rows[i].reason);
    return 0;
}

/* The most masked tokens of a sample, unless --max-masked-tokens tells. fairseq and Megatron draw a
 * fixed share of the tokens. Hugging Face's collator draws every token by itself: eight standard
 * deviations more than the mean of a micro-batch, and more for words, which are of any length. */
static int64_t usual_masked(const struct arguments *a)
{
    double share = a->mlm.mask_prob, tokens = (double)a->seq_length;
    double deviation = sqrt(tokens * share * (1 - share) / (double)a->micro_batch_size);

    if (!(share > 0 && share < 1))
        return a->seq_length;
    if (arguments_use_bert(a) ||
        (a->mlm.masking != MASK_COLLATOR && !a->mlm.whole_words))
        return (int64_t)ceil(tokens * share - 1e-6) + 1;
    /* Rows are packed for the case that all of their tokens are selected. */
    if (a->mlm.pack)
        return a->seq_length;
    return (int64_t)ceil(tokens * share + (a->mlm.whole_words ? 16 : 8) * deviation) + 1;
}

int arguments_masked(struct arguments *a, struct error *err)
{
    if (!a->masked && check_causal(a, err) < 0)
        return -1;
    if (a->token_types < 0)
        a->token_types = 0;
    if (a->position_offset < 0)
        a->position_offset = 0;
    if (!a->masked)
        return 0;
    if (a->masked_max < 0)
        a->masked_max = usual_masked(a);
    if (a->masked_max > a->seq_length)
        a->masked_max = a->seq_length;
    if (check_bidirectional(a, err) < 0)
        return -1;
    if (a->post_norm && a->normalization != NORMALIZATION_LAYER)
        return error_set(err, "--post-norm requires --normalization LayerNorm; change one of them");
    if (a->position_embedding != POSITION_LEARNED && a->position_offset > 0)
        return error_set(err, "--position-offset requires --position-embedding-type "
                              "learned_absolute; change one of them");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of transformers that this program does not have: config.json may only give them the
 * value that does nothing. All others that change what transformers computes are read by
 * hf_families.c and hf_masked.c (t/peers/hf-keys.py goes through all of them). */
#include "hf_families.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECODERS "decoders" /* families with Llama's settings */
#define GEMMAS   "gemma gemma2 gemma3_text"
#define MASKED   "roberta bert megatron-bert"

static const struct {
    const char *types, *key;
    const char *values; /* as JSON has them, with spaces between */
} rows[] = {
    {"", "per_layer_config", "null"},
    {"", "is_encoder_decoder", "false null"},
    {"", "add_cross_attention", "false null"},
    {"gpt2", "scale_attn_weights", "true"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false"},
    {"gpt2 " MASKED, "tie_word_embeddings", "true"},
    {DECODERS, "attention_bias", "false"},
    {DECODERS, "mlp_bias", "false"},
    {"gpt_neox", "attention_bias", "true"},
    {"phi3", "resid_pdrop", "0"},
    {"gemma2", "sliding_window_pattern", "2"},
    {GEMMAS, "use_bidirectional_attention", "false null"},
    {MASKED, "is_decoder", "false"},
    {MASKED, "position_embedding_type", "\"absolute\" null"},
};

/* Is a word in a list with spaces between? */
static int has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return 1;
    return 0;
}

/* A value as JSON has it; numbers in their shortest form, for lists and objects their kind. */
static void describe(struct json_value value, char *out, size_t size)
{
    const char *text;
    double number;
    size_t length;
    int yes;

    if (json_bool(value, &yes) == 0)
        snprintf(out, size, "%s", yes ? "true" : "false");
    else if (json_real(value, &number) == 0)
        snprintf(out, size, "%g", number);
    else if (json_string(value, &text, &length) == 0)
        snprintf(out, size, "\"%.40s\"", text);
    else /* null, or the kind of something longer */
        snprintf(out, size, "%s", json_type_name(json_type(value)));
}

int hf_keys_check(struct json_value root, const char *model_type, int decoder, const char *name,
                  struct error *err)
{
    struct json_value value;
    char text[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((*rows[i].types && !has_word(rows[i].types, model_type) &&
             !(decoder && has_word(rows[i].types, DECODERS))) ||
            json_member(root, rows[i].key, &value) < 0)
            continue;
        describe(value, text, sizeof(text));
        if (!has_word(rows[i].values, text))
            return error_set(err, "%s=%s is not supported for %s; use another model", rows[i].key,
                             text, name);
    }
    return 0;
}

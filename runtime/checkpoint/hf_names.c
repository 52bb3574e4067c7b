/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_masked.h"
#include "hf_private.h"

#include <stdio.h>
#include <string.h>

/* Both tables are in the order of transformers' modules, which decides which tensor goes to which
 * file. */
static const struct hf_name gpt2_names[] = {
    {"embedding.word.weight", "transformer.wte.weight", 0, 0, 0},
    {"embedding.position.weight", "transformer.wpe.weight", 0, 0, 0},
    {"layers.%d.norm1.weight", "transformer.h.%d.ln_1.weight", 0, 0, 0},
    {"layers.%d.norm1.bias", "transformer.h.%d.ln_1.bias", 0, 0, 0},
    {"layers.%d.attention.query.weight", "transformer.h.%d.attn.c_attn.weight", 1, 0, 3},
    {"layers.%d.attention.key.weight", "transformer.h.%d.attn.c_attn.weight", 1, 1, 3},
    {"layers.%d.attention.value.weight", "transformer.h.%d.attn.c_attn.weight", 1, 2, 3},
    {"layers.%d.attention.query.bias", "transformer.h.%d.attn.c_attn.bias", 0, 0, 3},
    {"layers.%d.attention.key.bias", "transformer.h.%d.attn.c_attn.bias", 0, 1, 3},
    {"layers.%d.attention.value.bias", "transformer.h.%d.attn.c_attn.bias", 0, 2, 3},
    {"layers.%d.attention.projection.weight", "transformer.h.%d.attn.c_proj.weight", 1, 0, 0},
    {"layers.%d.attention.projection.bias", "transformer.h.%d.attn.c_proj.bias", 0, 0, 0},
    {"layers.%d.norm2.weight", "transformer.h.%d.ln_2.weight", 0, 0, 0},
    {"layers.%d.norm2.bias", "transformer.h.%d.ln_2.bias", 0, 0, 0},
    {"layers.%d.mlp.up.weight", "transformer.h.%d.mlp.c_fc.weight", 1, 0, 0},
    {"layers.%d.mlp.up.bias", "transformer.h.%d.mlp.c_fc.bias", 0, 0, 0},
    {"layers.%d.mlp.down.weight", "transformer.h.%d.mlp.c_proj.weight", 1, 0, 0},
    {"layers.%d.mlp.down.bias", "transformer.h.%d.mlp.c_proj.bias", 0, 0, 0},
    {"final_norm.weight", "transformer.ln_f.weight", 0, 0, 0},
    {"final_norm.bias", "transformer.ln_f.bias", 0, 0, 0},
    {0, 0, 0, 0, 0},
};

static const struct hf_name llama_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", 0, 0, 0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.q_proj.weight", 0, 0, 0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.k_proj.weight", 0, 0, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.v_proj.weight", 0, 0, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", 0, 0, 0},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_proj.weight", 0, 0, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.up_proj.weight", 0, 0, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", 0, 0, 0},
    {"layers.%d.norm1.weight", "model.layers.%d.input_layernorm.weight", 0, 0, 0},
    {"layers.%d.norm2.weight", "model.layers.%d.post_attention_layernorm.weight", 0, 0, 0},
    {"final_norm.weight", "model.norm.weight", 0, 0, 0},
    {"head.weight", "lm_head.weight", 0, 0, 0},
    {0, 0, 0, 0, 0},
};

/* The Hugging Face family of this model, or NULL if there is none. */
const struct hf_name *hf_names_of(const struct model_config *c, struct error *err)
{
    int gpt2 = c->position == POSITION_LEARNED && c->norm == NORM_LAYER && !c->swiglu &&
               c->linear_bias && c->tied && c->shape.heads == c->shape.query_groups &&
               c->shape.heads * c->shape.kv_channels == c->shape.hidden;
    int llama = c->position == POSITION_ROPE && c->norm == NORM_RMS && c->swiglu &&
                !c->linear_bias && !c->qkv_bias && c->rotary_percent == 1;

    if (c->masked)
        return hf_masked_names(c, err);
    if (!gpt2 && !llama)
        error_set(err, "Hugging Face has no such model: only GPT-2 (learned positions, LayerNorm, "
                       "GELU, biases, tied embeddings) and Llama (rope, RMSNorm, SwiGLU, no "
                       "biases) can be exported");
    return gpt2 ? gpt2_names : llama ? llama_names : NULL;
}

const char *hf_architecture(const struct hf_name *table)
{
    const char *masked = hf_masked_architecture(table);

    if (masked)
        return masked;
    return table == llama_names ? "Llama" : "GPT-2";
}

const struct hf_name *hf_find_name(const struct hf_name *table, const char *ours,
                                   char theirs[HF_NAME])
{
    char text[HF_NAME];
    int layer = -1;

    sscanf(ours, "layers.%d.", &layer);
    for (const struct hf_name *row = table; row->ours; row++) {
        if (strchr(row->ours, '%') ? layer < 0 : layer >= 0)
            continue;
        snprintf(text, sizeof(text), row->ours, layer);
        if (strcmp(text, ours) != 0)
            continue;
        snprintf(theirs, HF_NAME, row->theirs, layer);
        return row;
    }
    return NULL;
}

void hf_shape(const struct hf_name *row, const struct parameter *p, int64_t *rows, int64_t *cols)
{
    int64_t all_rows = p->true_rows < p->all_rows ? p->true_rows : p->all_rows;
    int64_t parts = row->size ? row->size : 1;

    if (all_rows == 1 || p->all_cols == 1) {
        *rows = 1;
        *cols = all_rows * p->all_cols * parts;
    } else if (row->transposed) {
        *rows = p->all_cols;
        *cols = all_rows * parts;
    } else {
        *rows = all_rows * parts;
        *cols = p->all_cols;
    }
}

int64_t hf_index(const struct hf_name *row, const struct parameter *p, int64_t r, int64_t c)
{
    int64_t rows, cols;

    hf_shape(row, p, &rows, &cols);
    if (rows == 1)
        return row->part * p->all_cols + r * p->all_cols + c;
    if (row->transposed)
        return c * cols + row->part * p->all_rows + r;
    return (row->part * p->all_rows + r) * cols + c;
}

int64_t hf_true_rows(const struct parameter *p)
{
    int64_t rows = p->true_rows - p->first_row;

    return rows < 0 ? 0 : rows < p->rows ? rows : p->rows;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_config.h"
#include "hf_masked.h"
#include "hf_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *type_name(const struct model_config *c)
{
    return c->numerics.type == TYPE_FP32   ? "float32"
           : c->numerics.type == TYPE_BF16 ? "bfloat16"
                                           : "float16";
}

static const char *word(int yes)
{
    return yes ? "true" : "false";
}

static void print_size(FILE *f, const char *name, int64_t value)
{
    fprintf(f, "  \"%s\": %lld,\n", name, (long long)value);
}

/* As Python writes a float: transformers takes no integer instead. */
static void print_real(FILE *f, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.9g", value);
    fprintf(f, "  \"%s\": %s%s,\n", name, text, strpbrk(text, ".e") ? "" : ".0");
}

/* 0 stands for none. */
static void print_cap(FILE *f, const char *name, double value)
{
    if (value > 0)
        print_real(f, name, value);
    else
        fprintf(f, "  \"%s\": null,\n", name);
}

static void print_gpt2(const struct network *c, FILE *f)
{
    const struct model_shape *s = &c->shape;

    fprintf(f,
            "  \"activation_function\": \"gelu_new\",\n  \"vocab_size\": %lld,\n"
            "  \"n_positions\": %lld,\n  \"n_ctx\": %lld,\n  \"n_embd\": %lld,\n"
            "  \"n_layer\": %lld,\n  \"n_head\": %lld,\n  \"n_inner\": %lld,\n"
            "  \"layer_norm_epsilon\": %.9g,\n  \"embd_pdrop\": %.9g,\n  \"resid_pdrop\": %.9g,\n"
            "  \"attn_pdrop\": %.9g,\n",
            (long long)s->vocabulary, (long long)c->positions, (long long)c->positions,
            (long long)s->hidden, (long long)s->layers, (long long)s->heads,
            (long long)s->ffn_hidden, c->epsilon, c->hidden_dropout, c->hidden_dropout,
            c->attention_dropout);
}

static void print_rope_members(const struct rope_scaling *s, FILE *f)
{
    switch (s->kind) {
    case ROPE_LLAMA3:
        fprintf(f,
                "\"rope_type\": \"llama3\", \"factor\": %.9g, \"low_freq_factor\": %.9g, "
                "\"high_freq_factor\": %.9g, \"original_max_position_embeddings\": %.15g",
                s->factor, s->low, s->high, s->original);
        break;
    case ROPE_LINEAR:
        fprintf(f, "\"rope_type\": \"linear\", \"factor\": %.9g", s->factor);
        break;
    case ROPE_YARN:
        fprintf(f,
                "\"rope_type\": \"yarn\", \"factor\": %.9g, \"beta_slow\": %.9g, \"beta_fast\": "
                "%.9g, \"original_max_position_embeddings\": %.15g",
                s->factor, s->low, s->high, s->original);
        if (s->attention > 0)
            fprintf(f, ", \"attention_factor\": %.9g", s->attention);
        break;
    default:
        fprintf(f, "\"rope_type\": \"default\"");
        break;
    }
}

static void print_rope_scaling(const struct network *c, FILE *f)
{
    if (c->rope_scaling.kind == ROPE_PLAIN)
        return;
    fprintf(f, "  \"rope_scaling\": {");
    print_rope_members(&c->rope_scaling, f);
    fprintf(f, "},\n");
}

static double local_base(const struct network *c)
{
    return c->local_rotary_base > 0 ? c->local_rotary_base : c->shape.rotary_base;
}

/* The rotations of layers without and with a window. */
static void print_rope_parameters(const struct network *c, FILE *f)
{
    fprintf(f, "  \"rope_parameters\": {\"full_attention\": {\"rope_theta\": %.9g, ",
            c->shape.rotary_base);
    print_rope_members(&c->rope_scaling, f);
    fprintf(f, "}, \"sliding_attention\": {\"rope_theta\": %.9g, \"rope_type\": \"default\"}},\n",
            local_base(c));
}

static void print_sizes(const struct network *c, FILE *f)
{
    const struct model_shape *s = &c->shape;

    print_size(f, "vocab_size", s->vocabulary);
    print_size(f, "max_position_embeddings", c->positions);
    print_size(f, "hidden_size", s->hidden);
    print_size(f, "intermediate_size", s->ffn_hidden);
    print_size(f, "num_hidden_layers", s->layers);
    print_size(f, "num_attention_heads", s->heads);
}

static void print_decoder(const struct network *c, FILE *f)
{
    const struct model_shape *s = &c->shape;

    if (c->gate == GATE_SILU)
        fprintf(f, "  \"hidden_act\": \"silu\",\n");
    else
        fprintf(f, "  \"hidden_act\": \"gelu_pytorch_tanh\",\n"
                   "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n");
    print_sizes(c, f);
    print_size(f, "num_key_value_heads", s->query_groups);
    print_size(f, "head_dim", s->kv_channels);
    print_real(f, "rms_norm_eps", c->epsilon);
    print_real(f, "rope_theta", s->rotary_base);
    print_real(f, "attention_dropout", c->attention_dropout);
    fprintf(f, "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n");
    print_rope_scaling(c, f);
}

static void print_neox(const struct network *c, FILE *f)
{
    fprintf(f, "  \"hidden_act\": \"%s\",\n", c->gelu_erf ? "gelu" : "gelu_new");
    print_sizes(c, f);
    print_real(f, "layer_norm_eps", c->epsilon);
    print_real(f, "rotary_emb_base", c->shape.rotary_base);
    print_real(f, "rotary_pct", c->rotary_percent);
    print_real(f, "hidden_dropout", c->hidden_dropout);
    print_real(f, "attention_dropout", c->attention_dropout);
    fprintf(f, "  \"attention_bias\": true,\n  \"use_parallel_residual\": %s,\n",
            word(c->parallel_residual));
    print_rope_scaling(c, f);
}

static void print_window(const struct network *c, FILE *f)
{
    if (c->window > 0)
        print_size(f, "sliding_window", c->window);
    else
        fprintf(f, "  \"sliding_window\": null,\n");
}

/* For families whose layers are listed: transformers needs a number even if no layer uses it. */
static void print_window_of_list(const struct network *c, FILE *f)
{
    print_size(f, "sliding_window", c->window > 0 ? c->window : 4096);
}

static void print_layer_types(const struct network *c, FILE *f)
{
    fprintf(f, "  \"layer_types\": [");
    for (int64_t i = 0; i < c->shape.layers; i++)
        fprintf(f, "%s\"%s_attention\"", i ? ", " : "",
                network_has_window(c, i) ? "sliding" : "full");
    fprintf(f, "],\n");
}

static void print_gemma_scores(const struct network *c, int capped, FILE *f)
{
    fprintf(f, "  \"query_pre_attn_scalar\": %.9g,\n",
            c->attention_scale > 0 ? 1 / (c->attention_scale * c->attention_scale)
                                   : (double)c->shape.kv_channels);
    if (capped)
        print_cap(f, "attn_logit_softcapping", c->attention_softcap);
    print_cap(f, "final_logit_softcapping", c->logit_softcap);
}

/* What an architecture has beyond the common fields. */
static void print_special(const struct network *c, enum architecture architecture, FILE *f)
{
    switch (architecture) {
    case ARCHITECTURE_PHI3:
        print_real(f, "partial_rotary_factor", c->rotary_percent);
        fprintf(f, "  \"pad_token_id\": null,\n");
        print_window(c, f);
        break;
    case ARCHITECTURE_MISTRAL:
        print_window(c, f);
        break;
    case ARCHITECTURE_QWEN2:
    case ARCHITECTURE_QWEN3:
        fprintf(f, "  \"use_sliding_window\": %s,\n  \"max_window_layers\": %lld,\n",
                word(c->window > 0), (long long)(c->window > 0 ? 0 : c->shape.layers));
        print_window(c, f);
        if (c->window > 0)
            print_layer_types(c, f);
        break;
    case ARCHITECTURE_OLMO:
        fprintf(f, "  \"pad_token_id\": null,\n");
        print_cap(f, "clip_qkv", c->qkv_clip);
        break;
    case ARCHITECTURE_OLMO2:
    case ARCHITECTURE_GEMMA:
        fprintf(f, "  \"pad_token_id\": null,\n");
        break;
    case ARCHITECTURE_GEMMA3:
        print_real(f, "rope_local_base_freq", local_base(c));
        /* fall through */
    case ARCHITECTURE_GEMMA2:
        print_gemma_scores(c, architecture == ARCHITECTURE_GEMMA2, f);
        /* fall through */
    case ARCHITECTURE_OLMO3:
        if (architecture == ARCHITECTURE_OLMO3)
            print_rope_parameters(c, f);
        fprintf(f, "  \"pad_token_id\": null,\n");
        print_window_of_list(c, f);
        print_layer_types(c, f);
        break;
    default:
        break;
    }
}

static void print_config(const struct network *c, const char *type, const struct hf_family *family,
                         FILE *f)
{
    fprintf(f, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n", family->class,
            family->model_type);
    if (family->architecture == ARCHITECTURE_GPT2)
        print_gpt2(c, f);
    else if (family->architecture == ARCHITECTURE_GPT_NEOX)
        print_neox(c, f);
    else
        print_decoder(c, f);
    print_special(c, family->architecture, f);
    print_real(f, "initializer_range", c->init_std);
    fprintf(f, "  \"tie_word_embeddings\": %s,\n", word(c->tied));
    /* If these tokens are not set, transformers uses those of the family's original vocabulary. In
     * another vocabulary they are arbitrary tokens, and texts would end there. */
    if (c->shape.vocabulary != family->vocabulary)
        fprintf(f, "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n");
    fprintf(f, "  \"torch_dtype\": \"%s\"\n}\n", type);
}

char *hf_config_text(const struct model_config *config, size_t *size, struct error *err)
{
    struct hf_map map;
    char *text = NULL;
    FILE *f;

    if (hf_map_of(&config->network, &map, err) < 0)
        return NULL;
    f = open_memstream(&text, size);
    if (f && config->network.masked)
        hf_masked_print(&config->network, type_name(config), f);
    else if (f)
        print_config(&config->network, type_name(config), map.family, f);
    if (f && fclose(f) == 0)
        return text;
    free(text);
    error_set(err, "out of memory");
    return NULL;
}

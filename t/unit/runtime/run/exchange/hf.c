/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face directories: unsupported settings are rejected with a sentence, and an export never
 * leaves a mixture of two models behind. */
#include "tap.h"
#include "run/exchange/convert.h"
#include "run/checkpoint/directory.h"
#include "run/exchange/hf_config.h"
#include "run/exchange/hf_families.h"
#include "run/exchange/hf_private.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[] = "/tmp/megatron-hf-XXXXXX";
static struct error err;

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;
    char *out = path[turn++ % 4];

    snprintf(out, sizeof(path[0]), "%s/%s", scratch, name);
    return out;
}

static void clear(const char *name)
{
    struct error ignored;

    directory_remove(path_of(name), NULL, &ignored);
}

/* A tensor of a directory; rows 0: a vector. All elements are 'value'. */
struct given {
    const char *name, *kind;
    int rows, cols;
    float value;
};

#define LLAMA_LAYER(number)                                                       \
    {"model.layers." number ".self_attn.q_proj.weight", "F32", 4, 4, 1},          \
        {"model.layers." number ".self_attn.k_proj.weight", "F32", 2, 4, 1},      \
        {"model.layers." number ".self_attn.v_proj.weight", "F32", 2, 4, 1},      \
        {"model.layers." number ".self_attn.o_proj.weight", "F32", 4, 4, 1},      \
        {"model.layers." number ".mlp.gate_proj.weight", "F32", 6, 4, 1},         \
        {"model.layers." number ".mlp.up_proj.weight", "F32", 6, 4, 1},           \
        {"model.layers." number ".mlp.down_proj.weight", "F32", 4, 6, 1},         \
        {"model.layers." number ".input_layernorm.weight", "F32", 0, 4, 1},       \
    {                                                                             \
        "model.layers." number ".post_attention_layernorm.weight", "F32", 0, 4, 1 \
    }

static const struct given llama[] = {{"model.embed_tokens.weight", "F32", 5, 4, 1},
                                     LLAMA_LAYER("0"),
                                     {"model.norm.weight", "F32", 0, 4, 1},
                                     {"lm_head.weight", "F32", 5, 4, 2},
                                     {0}};

static const struct given gpt2[] = {{"wte.weight", "F32", 5, 4, 1},
                                    {"wpe.weight", "F32", 8, 4, 1},
                                    {"h.0.ln_1.weight", "F32", 0, 4, 1},
                                    {"h.0.ln_1.bias", "F32", 0, 4, 1},
                                    {"h.0.attn.bias", "F32", 8, 8, 1},
                                    {"h.0.attn.c_attn.weight", "F32", 4, 12, 1},
                                    {"h.0.attn.c_attn.bias", "F32", 0, 12, 1},
                                    {"h.0.attn.c_proj.weight", "F32", 4, 4, 1},
                                    {"h.0.attn.c_proj.bias", "F32", 0, 4, 1},
                                    {"h.0.ln_2.weight", "F32", 0, 4, 1},
                                    {"h.0.ln_2.bias", "F32", 0, 4, 1},
                                    {"h.0.mlp.c_fc.weight", "F32", 4, 16, 1},
                                    {"h.0.mlp.c_fc.bias", "F32", 0, 16, 1},
                                    {"h.0.mlp.c_proj.weight", "F32", 16, 4, 1},
                                    {"h.0.mlp.c_proj.bias", "F32", 0, 4, 1},
                                    {"ln_f.weight", "F32", 0, 4, 1},
                                    {"ln_f.bias", "F32", 0, 4, 1},
                                    {0}};

static void put_entry(FILE *header, const struct given *t, size_t *at)
{
    size_t bytes = (size_t)(t->rows ? t->rows : 1) * (size_t)t->cols * sizeof(float);
    char rows[16] = "";

    if (t->rows)
        snprintf(rows, sizeof(rows), "%d,", t->rows);
    fprintf(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s%d],\"data_offsets\":[%zu,%zu]}",
            *at ? "," : "", t->name, t->kind, rows, t->cols, *at, *at + bytes);
    *at += bytes;
}

static void put_data(FILE *file, const struct given *t)
{
    for (int i = 0; i < (t->rows ? t->rows : 1) * t->cols; i++)
        fwrite(&t->value, sizeof(t->value), 1, file);
}

/* The tensors of a list except one, with another in its place or at the end. */
static void write_tensors(const char *name, const struct given *list, const char *without,
                          const struct given *more)
{
    FILE *file = fopen(path_of(name), "wb"), *header;
    char *text = NULL;
    size_t size, at = 0;
    uint64_t length;

    header = open_memstream(&text, &size);
    fprintf(header, "{");
    for (const struct given *t = list; t->name; t++)
        if (!without || strcmp(t->name, without) != 0)
            put_entry(header, t, &at);
    if (more->name)
        put_entry(header, more, &at);
    fprintf(header, "}");
    fclose(header);
    length = size;
    fwrite(&length, sizeof(length), 1, file);
    fwrite(text, size, 1, file);
    for (const struct given *t = list; t->name; t++)
        if (!without || strcmp(t->name, without) != 0)
            put_data(file, t);
    if (more->name)
        put_data(file, more);
    free(text);
    ok(fclose(file) == 0, "%s is written", name);
}

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        ok(0, "cannot write %s", name);
}

/* The error of importing "in", without directory names and the general remedy. */
static const char *import(void)
{
    char text[sizeof(err.text)], *at;

    clear("out");
    if (convert_import_hf(path_of("in"), path_of("out"), &err) == 0)
        return "(accepted)";
    while ((at = strstr(err.text, scratch))) {
        snprintf(text, sizeof(text), "%s", at + strlen(scratch) + 1);
        snprintf(at, sizeof(err.text) - (size_t)(at - err.text), "%s", text);
    }
    err.text[strlen(err.text) - (size_t)err.advice] = '\0';
    return err.text;
}

#define SIZES_OF(layers)                                                                    \
    "\"num_hidden_layers\":" layers ",\"num_attention_heads\":2,\"num_key_value_heads\":1," \
    "\"hidden_size\":4,\"intermediate_size\":6,\"vocab_size\":5,\"max_position_embeddings\":8"
#define LIKE(type, more) "{\"model_type\":\"" type "\"," SIZES_OF("1") more "}"
#define TWO(type, more)  "{\"model_type\":\"" type "\"," SIZES_OF("2") more "}"
#define LLAMA(more)      LIKE("llama", more)
#define GPT2(more)                                                                       \
    "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":2,\"n_embd\":4,\"vocab_size\":5," \
    "\"n_positions\":8" more "}"
#define ROPE(text) ",\"rope_scaling\":{" text "}"
#define LLAMA3     "\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1"
#define IN         "in/config.json: "

static void test_configs(void)
{
    static const struct {
        const char *config, *sentence;
    } rows[] = {
        {LLAMA(""), "(accepted)"},
        {LLAMA(ROPE("\"type\":\"default\"")), "(accepted)"},
        {LLAMA(",\"rope_scaling\":null,\"rope_theta\":500000"), "(accepted)"},
        {LLAMA(ROPE(LLAMA3 ",\"high_freq_factor\":4,\"original_max_position_embeddings\":8")),
         "(accepted)"},
        {LLAMA(ROPE(LLAMA3 ",\"high_freq_factor\":4")),
         IN "rope_scaling: original_max_position_embeddings is missing or not greater than 0"},
        {LLAMA(ROPE(LLAMA3 ",\"original_max_position_embeddings\":8")),
         IN "rope_scaling: high_freq_factor is missing or not greater than 0"},
        {LLAMA(ROPE("\"rope_type\":\"llama3\",\"factor\":\"8\"")), IN "factor must be a number"},
        {LLAMA(ROPE("\"rope_type\":\"yarn\"")),
         IN "rope_scaling: factor is missing or not greater than 0"},
        {LLAMA(ROPE("\"rope_type\":\"yarn\",\"factor\":2,\"truncate\":false")),
         IN "yarn with truncate false, or with mscale different from mscale_all_dim, is not "
            "supported; use another model"},
        {LLAMA(ROPE("\"rope_type\":\"yarn\",\"factor\":2,\"beta_slow\":0")),
         IN "yarn: beta_slow, beta_fast and original_max_position_embeddings must be greater "
            "than 0"},
        {LLAMA(ROPE("\"rope_type\":\"longrope\",\"factor\":2")),
         IN "rope_scaling of type longrope is not supported, only linear, llama3 and yarn are; use "
            "another model"},
        {LIKE("phi3", ROPE("\"rope_type\":\"longrope\",\"short_factor\":[1]")),
         IN "rope_scaling of type longrope is not supported for Phi-3; use another model"},
        {LIKE("phi3", ",\"partial_rotary_factor\":0.5"),
         IN "with partial_rotary_factor 0.5, RoPE rotates 1 of the 2 channels of a head, and only "
            "an even number is supported; use another model"},
        {LIKE("mistral", ",\"sliding_window\":3"), "(accepted)"},
        {LIKE("mistral", ",\"sliding_window\":null"), "(accepted)"},
        {LIKE("mistral", ",\"sliding_window\":-3"), IN "sliding_window must be a positive integer"},
        {LIKE("qwen3", ",\"attention_bias\":true"),
         IN "attention_bias=true is not supported for Qwen3; use another model"},
        {LIKE("qwen2", ",\"use_sliding_window\":true,\"sliding_window\":3,\"max_window_layers\":"
                       "-1"),
         IN "max_window_layers must be a non-negative integer"},
        {LIKE("qwen2", ",\"layer_types\":[\"sliding_attention\"],\"sliding_window\":3"),
         IN "layer_types has layers with sliding_attention, but the model has no sliding_window"},
        {LIKE("qwen3", ",\"use_sliding_window\":true,\"layer_types\":[\"full_attention\",\"sliding_"
                       "attention\"],\"sliding_window\":3"),
         IN "layer_types has 2 entries, but num_hidden_layers is 1"},
        {LIKE("qwen3", ",\"layer_types\":[\"linear_attention\"]"),
         IN "layer_types has layers that are not supported (linear_attention), only "
            "sliding_attention and full_attention are; use another model"},
        {LIKE("mistral", ",\"layer_types\":[\"full_attention\"]"),
         IN "layer_types differs from sliding_window, which Mistral has in all layers or in none; "
            "use another model"},
        {LIKE("mistral", ",\"layer_types\":[\"sliding_attention\"]"), "(accepted)"},
        {LIKE("phi3", ",\"layer_types\":[\"sliding_attention\"]"),
         IN "layer_types has layers with sliding_attention, but the model has no sliding_window"},
        {LIKE("gemma2", ",\"sliding_window\":null,\"layer_types\":[\"sliding_attention\"]"),
         IN "layer_types has layers with sliding_attention, but the model has no sliding_window"},
        {LIKE("qwen2", ""),
         "in: tensor model.layers.0.self_attn.q_proj.bias is missing; copy the checkpoint again"},
        {LIKE("gemma3_text", ",\"layer_types\":[\"linear_attention\"]"),
         IN "layer_types has layers that are not supported (linear_attention), only "
            "sliding_attention and full_attention are; use another model"},
        {TWO("gemma3_text", ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]"),
         IN "the order of layer_types is not supported, only a repeated pattern "
            "of sliding-window layers and then one with full attention is; use another model"},
        {LIKE("gemma3_text", ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
         IN "layer_types has 2 entries, but num_hidden_layers is 1"},
        {LIKE("gemma2", ",\"hidden_activation\":\"relu\""), IN
         "hidden_activation relu is not supported, only gelu_pytorch_tanh is; use another model"},
        {LIKE("gpt_neox", ",\"hidden_act\":\"relu\""),
         IN "hidden_act relu is not supported, only gelu and gelu_new are; use another model"},
        {LIKE("gemma3", ""), IN "model_type gemma3 has a vision tower, which is not supported; "
                                "use a text model (gemma3_text)"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":3,\"n_embd\":4,\"vocab_size\":5,"
         "\"n_positions\":8}",
         IN "n_head has a value that is not supported for GPT-2; use another model"},
        {LIKE("olmo", ",\"clip_qkv\":0"), IN "clip_qkv must be null or greater than 0"},
        {LIKE("olmo", ",\"clip_qkv\":\"8\""), IN "clip_qkv must be a number"},
        {LLAMA(ROPE("\"rope_type\":null,\"factor\":2")), IN "rope_type must be a string"},
        {LLAMA(ROPE("\"type\":\"default\",\"partial_rotary_factor\":0.5")),
         IN "partial_rotary_factor 0.5 is not supported, only 1 is (Phi-3, GPT-NeoX: above 0, at "
            "most 1); use another model"},
        {LLAMA(",\"partial_rotary_factor\":0.5"),
         IN "partial_rotary_factor 0.5 is not supported, only 1 is (Phi-3, GPT-NeoX: above 0, at "
            "most 1); use another model"},
        {LLAMA(",\"rope_theta\":\"500000\""), IN "rope_theta must be a number"},
        {LLAMA(",\"rope_theta\":0"),
         IN "rope_theta must be greater than 0, and the norm epsilon must not be negative"},
        {LLAMA(",\"rms_norm_eps\":\"1e-5\""), IN "rms_norm_eps must be a number"},
        {LLAMA(",\"attention_bias\":\"yes\""),
         IN "attention_bias=\"yes\" is not supported for Llama; use another model"},
        {LLAMA(",\"attention_bias\":true"),
         IN "attention_bias=true is not supported for Llama; use another model"},
        {LIKE("roberta", ",\"type_vocab_size\":2147483648"),
         IN "type_vocab_size must be an integer from 0 to 2147483647"},
        {GPT2(",\"tie_word_embeddings\":false"),
         IN "tie_word_embeddings=false is not supported for GPT-2; use another model"},
        {GPT2(",\"scale_attn_weights\":false"),
         IN "scale_attn_weights=false is not supported for GPT-2; use another model"},
        {GPT2(",\"scale_attn_by_inverse_layer_idx\":true"),
         IN "scale_attn_by_inverse_layer_idx=true is not supported for GPT-2; use another model"},
        {LLAMA(",\"tie_word_embeddings\":null"), IN "tie_word_embeddings must be true or false"},
        {LLAMA(",\"head_dim\":3"), IN
         "its head size of 3 is odd and cannot be used with rotary embeddings; use another model"},
        {LLAMA(",\"hidden_act\":null"), IN "hidden_act must be a string"},
        {LLAMA(",\"quantization_config\":{\"quant_method\":\"fp8\"}"), IN
         "quantized weights (quantization_config) are not supported; get the unquantized weights"},
        {LLAMA(",\"tie_word_embeddings\":true"),
         "in: lm_head.weight differs from model.embed_tokens.weight, but config.json says "
         "that they are tied; set tie_word_embeddings to false if the model has both"},
        {"{\"model_type\":\"t5\"}",
         IN "model_type t5 is not supported; use a model of one of these types: gpt2, llama, "
            "mistral, qwen2, qwen3, phi3, "
            "gpt_neox, olmo, olmo2, olmo3, gemma, gemma2, gemma3_text, roberta, bert, "
            "megatron-bert"},
        {"{\"model_type\":7}", IN "model_type must be a string"},
    };

    write_tensors("in/model.safetensors", llama, NULL, &(struct given){0});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_text("in/config.json", rows[i].config);
        is(import(), rows[i].sentence, rows[i].config);
        if (rows[i].sentence[0] != '(')
            is_int(err.code, ERROR_USAGE, "  which no attempt can change");
    }
}

/* Read a configuration without the weights. */
static int read_config(const char *config, struct model_config *c)
{
    write_text("in/config.json", config);
    return hf_config_read(path_of("in"), c, &err);
}

/* An absent key is what transformers' configuration classes set; aliases are one function. */
static void test_equal_configs(void)
{
#define SMALL                                                                                 \
    "\"num_hidden_layers\":1,\"num_attention_heads\":32,\"hidden_size\":64,\"vocab_size\":5," \
    "\"intermediate_size\":6"
#define OF(type, more)            "{\"model_type\":\"" type "\"," SMALL more "}"
#define SAME(type, one, other)    OF(type, one), OF(type, other), 1
#define ABSENT(type, other)       SAME(type, "", other)
#define DIFFERENT(type, one, two) OF(type, one), OF(type, two), 0
    static const struct {
        const char *one, *other;
        int equal;
    } rows[] = {
        {ABSENT("llama", ",\"num_key_value_heads\":32,\"max_position_embeddings\":2048,"
                         "\"rms_norm_eps\":1e-6,\"rope_theta\":10000,\"head_dim\":2")},
        {ABSENT("mistral", ",\"num_key_value_heads\":8,\"max_position_embeddings\":131072,"
                           "\"rms_norm_eps\":1e-6,\"sliding_window\":4096")},
        {ABSENT("qwen2", ",\"num_key_value_heads\":32,\"max_position_embeddings\":32768,"
                         "\"rms_norm_eps\":1e-6,\"use_sliding_window\":false")},
        {SAME("qwen2", ",\"use_sliding_window\":true,\"max_window_layers\":0",
              ",\"use_sliding_window\":true,\"max_window_layers\":0,\"sliding_window\":4096")},
        {SAME("qwen2", ",\"use_sliding_window\":true", ",\"use_sliding_window\":false")},
        {ABSENT("qwen3", ",\"num_key_value_heads\":32,\"max_position_embeddings\":32768,"
                         "\"rms_norm_eps\":1e-6,\"head_dim\":128")},
        {ABSENT("phi3", ",\"num_key_value_heads\":32,\"max_position_embeddings\":4096,"
                        "\"rms_norm_eps\":1e-5,\"sliding_window\":null")},
        {ABSENT("olmo2", ",\"num_key_value_heads\":32,\"max_position_embeddings\":2048,"
                         "\"rms_norm_eps\":1e-5")},
        {ABSENT("olmo3", ",\"num_key_value_heads\":32,\"max_position_embeddings\":2048,"
                         "\"rms_norm_eps\":1e-5,\"rope_theta\":500000,\"sliding_window\":4096")},
        {ABSENT("gemma", ",\"num_key_value_heads\":16,\"max_position_embeddings\":8192,"
                         "\"rms_norm_eps\":1e-6,\"head_dim\":256,\"tie_word_embeddings\":true")},
        {ABSENT("gemma2", ",\"num_key_value_heads\":4,\"max_position_embeddings\":8192,"
                          "\"attn_logit_softcapping\":50,\"final_logit_softcapping\":30,"
                          "\"query_pre_attn_scalar\":256,\"rms_norm_eps\":1e-6")},
        {ABSENT("gemma3_text", ",\"num_key_value_heads\":4,\"max_position_embeddings\":131072,"
                               "\"rms_norm_eps\":1e-6,\"rope_theta\":1000000,"
                               "\"rope_local_base_freq\":10000")},
        {ABSENT("gemma3_text", ",\"attn_logit_softcapping\":50")},
        {ABSENT("gpt_neox", ",\"hidden_act\":\"gelu_python\",\"rotary_pct\":0.25,"
                            "\"layer_norm_eps\":1e-5,\"max_position_embeddings\":2048")},
        {SAME("gpt_neox", ",\"hidden_act\":\"gelu_new\"", ",\"hidden_act\":\"gelu_fast\"")},
        {SAME("gpt_neox", ",\"hidden_act\":\"gelu_new\"", ",\"hidden_act\":\"gelu_accurate\"")},
        {SAME("gpt_neox", ",\"hidden_act\":\"gelu_new\"", ",\"hidden_act\":\"gelu_python_tanh\"")},
        {DIFFERENT("gpt_neox", "", ",\"hidden_act\":\"gelu_new\"")},
        {ABSENT("llama", ",\"hidden_act\":\"swish\"")},
        {DIFFERENT("phi3", "", ",\"rms_norm_eps\":1e-6")},
        {DIFFERENT("gemma2", "", ",\"attn_logit_softcapping\":null")},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct model_config one, other;
        int good = read_config(rows[i].one, &one) == 0 && read_config(rows[i].other, &other) == 0;

        if (!ok(good && (memcmp(&one, &other, sizeof(one)) == 0) == rows[i].equal, "%s is %s %s",
                rows[i].one, rows[i].equal ? "like" : "unlike", rows[i].other) &&
            !good)
            diag("%s", err.text);
    }
}

/* families/keys.txt: changes of a configuration ("base") that transformers computes differently are
 * "refused" by this program or "carried" to its own configuration; changes that are "unused" must
 * not change it. See t/peers/hf-keys.py. */
static void test_keys(void)
{
    FILE *file = fopen(TOP_SRCDIR "/t/unit/runtime/run/exchange/families/keys.txt", "r");
    char line[4096], base[2048] = "", config[8192];
    struct model_config usual = {0}, c;
    int count = 0, bad = 0;

    while (file && fgets(line, sizeof(line), file)) {
        char *verdict = strtok(line, "\t"), *type = strtok(NULL, "\t"), *text = strtok(NULL, "\n");
        int rc;

        if (!verdict || !type || !text)
            break;
        if (strcmp(verdict, "base") == 0) {
            snprintf(base, sizeof(base), "%s", text);
            ok(read_config(base, &usual) == 0, "%s", type);
            continue;
        }
        /* Of two members with one name, the first counts. */
        snprintf(config, sizeof(config), "{%s, %s", text, base + 1);
        rc = read_config(config, &c);
        if (strcmp(verdict, "refused by its weights") == 0)
            continue;
        c.network.init_std = usual.network.init_std;
        if (strcmp(verdict, "unused") == 0)
            c.network.positions = usual.network.positions,
            c.network.shape.sequence = usual.network.shape.sequence;
        count++;
        if (strcmp(verdict, "refused") == 0   ? rc < 0
            : strcmp(verdict, "carried") == 0 ? rc == 0 && memcmp(&c, &usual, sizeof(c)) != 0
                                              : rc < 0 || memcmp(&c, &usual, sizeof(c)) == 0)
            continue;
        bad++;
        diag("%s with %s should be %s%s%s", type, text, verdict, rc < 0 ? ": " : "",
             rc < 0 ? err.text : "");
    }
    if (file)
        fclose(file);
    ok(count > 300 && bad == 0, "%d changed settings, %d with another effect", count, bad);
}

static void test_tensors(void)
{
    static const struct {
        const char *config;
        const struct given *list;
        const char *without;
        struct given more;
        const char *sentence;
    } rows[] = {
        {LLAMA(""),
         llama,
         "lm_head.weight",
         {0},
         "in: tensor lm_head.weight is missing; copy the checkpoint again"},
        {LLAMA(",\"tie_word_embeddings\":true"), llama, "lm_head.weight", {0}, "(accepted)"},
        {LLAMA(",\"tie_word_embeddings\":true"),
         llama,
         "lm_head.weight",
         {"lm_head.weight", "F32", 5, 4, 1},
         "(accepted)"},
        {LLAMA(""),
         llama,
         "lm_head.weight",
         {"lm_head.weight", "F8_E4M3", 5, 4, 1},
         "in: tensor lm_head.weight has type F8_E4M3 or is not a matrix or vector; convert it to "
         "F32, BF16 or F16"},
        {LLAMA(""),
         llama,
         NULL,
         {"model.layers.0.self_attn.q_proj.bias", "F32", 0, 4, 1},
         "in: tensor model.layers.0.self_attn.q_proj.bias does not belong to the model that "
         "config.json describes"},
        {LLAMA(""),
         llama,
         NULL,
         {"model.layers.0.self_attn.q_norm.weight", "BF16", 0, 2, 1},
         "in/model.safetensors: the size of tensor model.layers.0.self_attn.q_norm.weight does not "
         "match its shape; copy the file again"},
        {LLAMA(""),
         llama,
         NULL,
         {"model.layers.1.mlp.up_proj.weight", "F32", 6, 4, 1},
         "in: tensor model.layers.1.mlp.up_proj.weight does not belong to the model that "
         "config.json describes"},
        {LLAMA(""),
         llama,
         NULL,
         {"lm_head.bias", "F32", 0, 5, 1},
         "in: tensor lm_head.bias does not belong to the model that config.json describes"},
        {LLAMA(""),
         llama,
         NULL,
         {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 0, 1, 1},
         "(accepted)"},
        {LLAMA(""), llama, NULL, {"v_head.weight", "F32", 1, 4, 1}, "(accepted)"},
        {LLAMA(""),
         llama,
         NULL,
         {"model.norm.weight", "F32", 0, 4, 3},
         "in: tensor model.norm.weight exists twice"},
        {GPT2(""), gpt2, NULL, {0}, "(accepted)"},
        {GPT2(""), gpt2, NULL, {"lm_head.weight", "F32", 5, 4, 1}, "(accepted)"},
        {GPT2(""),
         gpt2,
         NULL,
         {"lm_head.weight", "F32", 5, 4, 7},
         "in: lm_head.weight differs from transformer.wte.weight, but config.json says "
         "that they are tied; set tie_word_embeddings to false if the model has both"},
        {GPT2(""),
         gpt2,
         NULL,
         {"h.0.crossattention.c_attn.weight", "F32", 4, 8, 1},
         "in: tensor h.0.crossattention.c_attn.weight does not belong to the model that "
         "config.json describes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_text("in/config.json", rows[i].config);
        write_tensors("in/model.safetensors", rows[i].list, rows[i].without, &rows[i].more);
        is(import(), rows[i].sentence, rows[i].sentence);
    }
}

/* A single file takes precedence over an index, as in transformers. */
static void test_index(void)
{
    write_text("in/config.json", LLAMA(""));
    write_tensors("in/model.safetensors", llama, NULL, &(struct given){0});
    write_text("in/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"nowhere\"}}");
    is(import(), "(accepted)", "a single file next to an index");
    rename(path_of("in/model.safetensors"), path_of("in/first.safetensors"));
    ok(strstr(import(), "cannot open in/nowhere") != NULL, "without it, the index counts");
    write_tensors("in/second.safetensors", llama, NULL, &(struct given){0});
    write_text("in/model.safetensors.index.json",
               "{\"weight_map\":{\"model.norm.weight\":\"first.safetensors\","
               "\"lm_head.weight\":\"second.safetensors\"}}");
    is(import(), "in: tensor lm_head.weight exists twice", "a tensor in two files");
    write_text("in/model.safetensors.index.json",
               "{\"weight_map\":{\"model.norm.weight\":\"first.safetensors\"}}");
    is(import(), "(accepted)", "one file by an index");
}

static int export(int64_t shard_bytes)
{
    char from[256];

    snprintf(from, sizeof(from), "%s/iter_0000000", path_of("out"));
    return convert_export_hf(from, path_of("back"), TYPE_FP32, shard_bytes, &err);
}

static int there(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* Does the exported configuration contain this? */
static int says(const char *text)
{
    char all[4096] = "";
    FILE *file = fopen(path_of("back/config.json"), "r");

    if (!file)
        return 0;
    all[fread(all, 1, sizeof(all) - 1, file)] = '\0';
    fclose(file);
    return strstr(all, text) != NULL;
}

static void test_export(void)
{
    struct rlimit limit, few;

    is_int(export(1), 0, "an export to several files");
    ok(there("back/model.safetensors.index.json"), "with an index");
    ok(says("\"eos_token_id\": null"), "and without the end of texts of another vocabulary");
    /* Something that cannot be replaced: a non-empty directory. */
    unlink(path_of("back/model-00002-of-00012.safetensors"));
    mkdir(path_of("back/model-00002-of-00012.safetensors"), 0777);
    write_text("back/model-00002-of-00012.safetensors/x", "");
    is_int(export(1), 0, "one that cannot give a file its usual name");
    ok(there("back/model-next-00002-of-00012.safetensors"), "keeps the other names");
    clear("back");
    is_int(export(INT64_MAX), 0, "an export to one file");
    is_int(export(1), 0, "to several in its place");
    ok(!there("back/model.safetensors"), "the one file is gone");
    write_text("back/model-00001-of-00003.safetensors.new", "of one that was killed");
    write_text("back/model-00001-of-00003.safetensors.old", "of somebody else");
    is_int(export(INT64_MAX), 0, "and back");
    ok(!there("back/model-00001-of-00003.safetensors.new"), "with what another began");
    ok(there("back/model-00001-of-00003.safetensors.old"), "and without what is not ours");
    ok(there("back/model.safetensors") && !there("back/model.safetensors.index.json") &&
           !there("back/model-00002-of-00012.safetensors"),
       "nothing of the several is left");
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        few = limit;
        few.rlim_cur = 10;
        setrlimit(RLIMIT_NOFILE, &few);
        is_int(export(1), 0, "more files than the soft limit allows");
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int open_files(const struct hf_files *files)
{
    int count = 0;

    for (size_t i = 0; i < files->count; i++)
        count += files->list[i].fd >= 0;
    return count;
}

/* Thousands of ranks would open every file if they did not wait until they write to one. And nodes
 * write to parts of the same page of a file, which NFS handles correctly only if nobody reads. */
static void test_writers(void)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct model_config config;
    struct hf_files files;
    struct parameters p;
    float weights[64] = {0};
    int readers = 0;

    write_text("in/config.json", LLAMA(""));
    if (hf_config_read(path_of("in"), &config, &err) < 0 ||
        hf_files_plan(&files, &config, 1, &err) < 0) {
        ok(0, "the plan of a model: %s", err.text);
        return;
    }
    parameters_create(&p, &config, &one, &at);
    for (int create = 1; create >= 0; create--) {
        is_int(hf_files_open(&files, path_of("in"), create, &err), 0, "files to write to");
        is_int(open_files(&files), create ? 12 : 0, "  of which these are open");
        is_int(hf_files_write(&files, &p.list[0], (const char *)weights, &err), 0, "a part");
        is_int(open_files(&files), create ? 12 : 1, "  opens its file only");
        for (size_t i = 0; i < files.count; i++)
            if (files.list[i].fd >= 0)
                readers += (fcntl(files.list[i].fd, F_GETFL) & O_ACCMODE) != O_WRONLY;
        is_int(readers, 0, "  and nobody reads");
        is_int(hf_files_close(&files, &err), 0, "  closed");
    }
    parameters_destroy(&p);
    hf_files_clear(&files);
}

static bool is_property(const char *name, size_t length)
{
    for (const struct network_property *p = network_properties; p->name; p++)
        if (strncmp(p->name, name, length) == 0 && p->name[length] == '\0')
            return true;
    return false;
}

/* A network fits a family only if each of its properties is one that the family has. */
static void test_fit(void)
{
    const struct hf_family *family;
    bool known = true;

    for (size_t i = 0; (family = hf_family_at(i)); i++) {
        struct network network;
        int changed = 0, wrong = 0;

        for (const char *name = family->may_have; name && *name; name += name[0] == '|') {
            known &= is_property(name, strcspn(name, "|"));
            name += strcspn(name, "|");
        }
        for (const struct hf_value *row = family->has; row && row->property; row++)
            known &= is_property(row->property, strlen(row->property));
        hf_plain(&network);
        network.shape.hidden = 64;
        network.shape.heads = network.shape.query_groups = 4;
        network.shape.kv_channels = 16;
        network.epsilon = 1e-5;
        hf_family_set(family, &network);
        ok(!hf_family_misfit(family, &network), "%s: its plain network fits", family->name);
        /* Of a masked language model, and what has an effect together with other values only. */
        for (const struct network_property *p = network_properties; p->name; p++) {
            struct network other = network;

            if (p->loose || hf_family_may_have(family, p->name) ||
                strncmp(p->name, "rope-", 5) == 0 || p < network_properties + 7 ||
                strcmp(p->name, "rotary-base") == 0 || strcmp(p->name, "apply-layernorm-1p") == 0 ||
                strcmp(p->name, "window-attn-skip-freq") == 0)
                continue;
            if (network.swiglu &&
                (strcmp(p->name, "activation") == 0 || strcmp(p->name, "exact-gelu") == 0))
                continue;
            if ((network.linear_bias && strcmp(p->name, "add-qkv-bias") == 0) ||
                (network.position != POSITION_ROPE && strcmp(p->name, "rotary-percent") == 0) ||
                (strcmp(p->name, "norm-epsilon") == 0 && !network.plain_norm))
                continue;
            network_set(&other, p, network_value(&other, p) == 1 ? 0 : 1);
            changed++;
            if (!hf_family_misfit(family, &other)) {
                wrong++;
                printf("# %s\n", p->name);
            }
        }
        ok(changed > 10 && wrong == 0, "%s: no other property fits", family->name);
    }
    ok(known, "the families name properties that exist");
}

int main(void)
{
    if (!mkdtemp(scratch))
        return skip_all("no directory for files");
    mkdir(path_of("in"), 0777);
    test_configs();
    test_equal_configs();
    test_keys();
    test_tensors();
    test_index();
    test_export();
    test_writers();
    test_fit();
    directory_remove(scratch, NULL, &err);
    return done_testing();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "preset.h"
#include "nearest.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Options that presets have in common. */
#define ROPE          "position-embedding-type=rope|hidden-dropout=0|attention-dropout=0|disable-bias-linear"
#define UNTIED        "|untie-embeddings-and-output-weights"
#define NEMO          ROPE "|rotary-percent=0.5" UNTIED
#define LLAMA_TIED    ROPE "|normalization=RMSNorm|swiglu"
#define LLAMA         LLAMA_TIED UNTIED
#define QWEN          LLAMA_TIED "|norm-epsilon=1e-6|rotary-base=1000000"
#define QWEN25_TIED   QWEN "|add-qkv-bias"
#define QWEN3_TIED    QWEN "|qk-layernorm"
#define ROBERTA       "masked-lm|post-norm|exact-gelu|position-offset=2|num-token-types=0"
#define MEGATRON_BERT "masked-lm|bert-binary-head|position-offset=0"
#define BERT          MEGATRON_BERT "|post-norm|exact-gelu|num-token-types=2|norm-epsilon=1e-12"

/* What the presets of a family have in common. */
#define GPT_PRESET .family = MODEL_GPT, .vocabulary = 50257
#define NEMO_PRESET \
    .group = nemo_gpt, .family = MODEL_LLAMA, .sequence = 2048, .options = NEMO "|swiglu"
#define LLAMA_PRESET .group = "Llama", .family = MODEL_LLAMA
#define MISTRAL_PRESET                                                           \
    .group = "Mistral", .family = MODEL_LLAMA, .ffn_hidden = 14336, .heads = 32, \
    .query_groups = 8, .kv_channels = 128, .sequence = 8192
#define QWEN25_PRESET .group = "Qwen 2.5", .family = MODEL_LLAMA, .sequence = 4096
#define QWEN3_PRESET                                                                 \
    .group = "Qwen 3", .family = MODEL_LLAMA, .query_groups = 8, .kv_channels = 128, \
    .vocabulary = 151936, .sequence = 4096
#define MASKED_PRESET .group = "RoBERTa and BERT", .sequence = 512
#define ROBERTA_PRESET \
    MASKED_PRESET, .family = MODEL_ROBERTA, .vocabulary = 50265, .options = ROBERTA
#define BERT_PRESET MASKED_PRESET, .family = MODEL_BERT, .vocabulary = 30522, .options = BERT
#define MEGATRON_BERT_PRESET \
    MASKED_PRESET, .family = MODEL_MEGATRON_BERT, .vocabulary = 30522, .options = MEGATRON_BERT

static const char megatron_gpt[] = "Megatron-LM GPT", nemo_gpt[] = "NeMo GPT-3 and Nemotron";

static const struct model_shape presets[] = {
    {GPT_PRESET, .name = "gpt2-345m", .group = megatron_gpt, .layers = 24, .hidden = 1024,
     .ffn_hidden = 4096, .heads = 16, .query_groups = 16, .kv_channels = 64, .sequence = 1024},
    {GPT_PRESET, .name = "gpt2-8b", .group = megatron_gpt, .layers = 42, .hidden = 4096,
     .ffn_hidden = 16384, .heads = 32, .query_groups = 32, .kv_channels = 128, .sequence = 1024},
    {GPT_PRESET, .name = "1.7B", .group = megatron_gpt, .layers = 24, .hidden = 2304,
     .ffn_hidden = 9216, .heads = 24, .query_groups = 24, .kv_channels = 96, .sequence = 2048},
    {GPT_PRESET, .name = "3.6B", .group = megatron_gpt, .layers = 30, .hidden = 3072,
     .ffn_hidden = 12288, .heads = 32, .query_groups = 32, .kv_channels = 96, .sequence = 2048},
    {GPT_PRESET, .name = "7.5B", .group = megatron_gpt, .layers = 36, .hidden = 4096,
     .ffn_hidden = 16384, .heads = 32, .query_groups = 32, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "18.4B", .group = megatron_gpt, .layers = 40, .hidden = 6144,
     .ffn_hidden = 24576, .heads = 48, .query_groups = 48, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "39.1B", .group = megatron_gpt, .layers = 48, .hidden = 8192,
     .ffn_hidden = 32768, .heads = 64, .query_groups = 64, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "76.1B", .group = megatron_gpt, .layers = 60, .hidden = 10240,
     .ffn_hidden = 40960, .heads = 80, .query_groups = 80, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "145.6B", .group = megatron_gpt, .layers = 80, .hidden = 12288,
     .ffn_hidden = 49152, .heads = 96, .query_groups = 96, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "310.1B", .group = megatron_gpt, .layers = 96, .hidden = 16384,
     .ffn_hidden = 65536, .heads = 128, .query_groups = 128, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "nemo-126m", .group = nemo_gpt, .layers = 12, .hidden = 768,
     .ffn_hidden = 3072, .heads = 12, .query_groups = 12, .kv_channels = 64, .sequence = 2048},
    {NEMO_PRESET, .name = "nemo-400m", .layers = 24, .hidden = 1024, .ffn_hidden = 2688,
     .heads = 16, .query_groups = 16, .kv_channels = 64, .vocabulary = 50257},
    {NEMO_PRESET, .name = "nemo-1b", .layers = 24, .hidden = 2048, .ffn_hidden = 5440, .heads = 16,
     .query_groups = 16, .kv_channels = 128, .vocabulary = 50257},
    {.name = "nemo-4b",
     .group = nemo_gpt,
     .family = MODEL_GPT,
     .layers = 32,
     .hidden = 3072,
     .ffn_hidden = 9216,
     .heads = 24,
     .query_groups = 8,
     .kv_channels = 128,
     .vocabulary = 256000,
     .sequence = 4096,
     .options = NEMO "|squared-relu"},
    {GPT_PRESET, .name = "nemo-5b", .group = nemo_gpt, .layers = 24, .hidden = 4096,
     .ffn_hidden = 16384, .heads = 32, .query_groups = 32, .kv_channels = 128, .sequence = 2048},
    {NEMO_PRESET, .name = "nemo-8b", .layers = 32, .hidden = 4096, .ffn_hidden = 10880, .heads = 32,
     .query_groups = 32, .kv_channels = 128, .vocabulary = 256000},
    {GPT_PRESET, .name = "nemo-20b", .group = nemo_gpt, .layers = 44, .hidden = 6144,
     .ffn_hidden = 24576, .heads = 48, .query_groups = 48, .kv_channels = 128, .sequence = 2048},
    {GPT_PRESET, .name = "nemo-40b", .group = nemo_gpt, .layers = 48, .hidden = 8192,
     .ffn_hidden = 32768, .heads = 64, .query_groups = 64, .kv_channels = 128, .sequence = 2048},
    {NEMO_PRESET, .name = "nemo-43b", .layers = 48, .hidden = 8192, .ffn_hidden = 21824,
     .heads = 64, .query_groups = 64, .kv_channels = 128, .vocabulary = 256000},
    {GPT_PRESET, .name = "nemo-175b", .group = nemo_gpt, .layers = 96, .hidden = 12288,
     .ffn_hidden = 49152, .heads = 96, .query_groups = 96, .kv_channels = 128, .sequence = 2048},
    {LLAMA_PRESET, .name = "llama2-7b", .layers = 32, .hidden = 4096, .ffn_hidden = 11008,
     .heads = 32, .query_groups = 32, .kv_channels = 128, .vocabulary = 32000, .sequence = 4096,
     .options = LLAMA},
    {LLAMA_PRESET, .name = "llama2-13b", .layers = 40, .hidden = 5120, .ffn_hidden = 13824,
     .heads = 40, .query_groups = 40, .kv_channels = 128, .vocabulary = 32000, .sequence = 4096,
     .options = LLAMA},
    {LLAMA_PRESET, .name = "llama2-70b", .layers = 80, .hidden = 8192, .ffn_hidden = 28672,
     .heads = 64, .query_groups = 8, .kv_channels = 128, .vocabulary = 32000, .sequence = 4096,
     .options = LLAMA},
    {LLAMA_PRESET, .name = "llama3-8b", .layers = 32, .hidden = 4096, .ffn_hidden = 14336,
     .heads = 32, .query_groups = 8, .kv_channels = 128, .vocabulary = 128256, .sequence = 8192,
     .options = LLAMA "|rotary-base=500000"},
    {LLAMA_PRESET, .name = "llama3-70b", .layers = 80, .hidden = 8192, .ffn_hidden = 28672,
     .heads = 64, .query_groups = 8, .kv_channels = 128, .vocabulary = 128256, .sequence = 8192,
     .options = LLAMA "|rotary-base=500000"},
    {LLAMA_PRESET, .name = "llama3.1-405b", .layers = 126, .hidden = 16384, .ffn_hidden = 53248,
     .heads = 128, .query_groups = 8, .kv_channels = 128, .vocabulary = 128256, .sequence = 8192,
     .options = LLAMA "|rotary-base=500000"},
    {LLAMA_PRESET, .name = "llama3.2-1b", .layers = 16, .hidden = 2048, .ffn_hidden = 8192,
     .heads = 32, .query_groups = 8, .kv_channels = 64, .vocabulary = 128256, .sequence = 8192,
     .options = LLAMA_TIED "|rotary-base=500000"},
    {LLAMA_PRESET, .name = "llama3.2-3b", .layers = 28, .hidden = 3072, .ffn_hidden = 8192,
     .heads = 24, .query_groups = 8, .kv_channels = 128, .vocabulary = 128256, .sequence = 8192,
     .options = LLAMA_TIED "|rotary-base=500000"},
    {MISTRAL_PRESET, .name = "mistral-7b-v0.1", .layers = 32, .hidden = 4096, .vocabulary = 32000,
     .options = LLAMA "|window-size=4095,0"},
    {MISTRAL_PRESET, .name = "mistral-7b", .layers = 32, .hidden = 4096, .vocabulary = 32768,
     .options = LLAMA "|rotary-base=1000000"},
    {MISTRAL_PRESET, .name = "mistral-nemo-12b", .layers = 40, .hidden = 5120, .vocabulary = 131072,
     .options = LLAMA "|rotary-base=1000000"},
    {QWEN25_PRESET, .name = "qwen2.5-0.5b", .layers = 24, .hidden = 896, .ffn_hidden = 4864,
     .heads = 14, .query_groups = 2, .kv_channels = 64, .vocabulary = 151936,
     .options = QWEN25_TIED},
    {QWEN25_PRESET, .name = "qwen2.5-1.5b", .layers = 28, .hidden = 1536, .ffn_hidden = 8960,
     .heads = 12, .query_groups = 2, .kv_channels = 128, .vocabulary = 151936,
     .options = QWEN25_TIED},
    {QWEN25_PRESET, .name = "qwen2.5-3b", .layers = 36, .hidden = 2048, .ffn_hidden = 11008,
     .heads = 16, .query_groups = 2, .kv_channels = 128, .vocabulary = 151936,
     .options = QWEN25_TIED},
    {QWEN25_PRESET, .name = "qwen2.5-7b", .layers = 28, .hidden = 3584, .ffn_hidden = 18944,
     .heads = 28, .query_groups = 4, .kv_channels = 128, .vocabulary = 152064,
     .options = QWEN25_TIED UNTIED},
    {QWEN25_PRESET, .name = "qwen2.5-14b", .layers = 48, .hidden = 5120, .ffn_hidden = 13824,
     .heads = 40, .query_groups = 8, .kv_channels = 128, .vocabulary = 152064,
     .options = QWEN25_TIED UNTIED},
    {QWEN25_PRESET, .name = "qwen2.5-32b", .layers = 64, .hidden = 5120, .ffn_hidden = 27648,
     .heads = 40, .query_groups = 8, .kv_channels = 128, .vocabulary = 152064,
     .options = QWEN25_TIED UNTIED},
    {QWEN25_PRESET, .name = "qwen2.5-72b", .layers = 80, .hidden = 8192, .ffn_hidden = 29568,
     .heads = 64, .query_groups = 8, .kv_channels = 128, .vocabulary = 152064,
     .options = QWEN25_TIED UNTIED},
    {QWEN3_PRESET, .name = "qwen3-0.6b", .layers = 28, .hidden = 1024, .ffn_hidden = 3072,
     .heads = 16, .options = QWEN3_TIED},
    {QWEN3_PRESET, .name = "qwen3-1.7b", .layers = 28, .hidden = 2048, .ffn_hidden = 6144,
     .heads = 16, .options = QWEN3_TIED},
    {QWEN3_PRESET, .name = "qwen3-4b", .layers = 36, .hidden = 2560, .ffn_hidden = 9728,
     .heads = 32, .options = QWEN3_TIED},
    {QWEN3_PRESET, .name = "qwen3-8b", .layers = 36, .hidden = 4096, .ffn_hidden = 12288,
     .heads = 32, .options = QWEN3_TIED UNTIED},
    {QWEN3_PRESET, .name = "qwen3-14b", .layers = 40, .hidden = 5120, .ffn_hidden = 17408,
     .heads = 40, .options = QWEN3_TIED UNTIED},
    {QWEN3_PRESET, .name = "qwen3-32b", .layers = 64, .hidden = 5120, .ffn_hidden = 25600,
     .heads = 64, .options = QWEN3_TIED UNTIED},
    {ROBERTA_PRESET, .name = "roberta-base", .layers = 12, .hidden = 768, .ffn_hidden = 3072,
     .heads = 12, .query_groups = 12, .kv_channels = 64},
    {ROBERTA_PRESET, .name = "roberta-large", .layers = 24, .hidden = 1024, .ffn_hidden = 4096,
     .heads = 16, .query_groups = 16, .kv_channels = 64},
    {BERT_PRESET, .name = "bert-base", .layers = 12, .hidden = 768, .ffn_hidden = 3072, .heads = 12,
     .query_groups = 12, .kv_channels = 64},
    {BERT_PRESET, .name = "bert-large", .layers = 24, .hidden = 1024, .ffn_hidden = 4096,
     .heads = 16, .query_groups = 16, .kv_channels = 64},
    {MEGATRON_BERT_PRESET, .name = "megatron-bert-345m", .layers = 24, .hidden = 1024,
     .ffn_hidden = 4096, .heads = 16, .query_groups = 16, .kv_channels = 64},
    {MEGATRON_BERT_PRESET, .name = "megatron-bert-1.3b", .layers = 24, .hidden = 2048,
     .ffn_hidden = 8192, .heads = 32, .query_groups = 32, .kv_channels = 64},
    {MEGATRON_BERT_PRESET, .name = "megatron-bert-3.9b", .layers = 48, .hidden = 2560,
     .ffn_hidden = 10240, .heads = 40, .query_groups = 40, .kv_channels = 64},
};

enum { PRESETS = sizeof(presets) / sizeof(presets[0]) };

/* Put into 'text' the presets whose name without its family is 'name': 20B is nemo-20b. Return
 * their number, or 0 if the text is too short. */
static int other_families(const char *name, char *text, size_t size)
{
    int count = 0;
    size_t used = 0;

    for (size_t i = 0; i < PRESETS; i++) {
        const char *dash = strrchr(presets[i].name, '-');

        if (dash == NULL || strcasecmp(dash + 1, name) != 0)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", count > 0 ? " or " : "",
                                 presets[i].name);
        if (used >= size)
            return 0;
        count++;
    }
    return count;
}

const struct model_shape *preset_find(const char *what, const char *name, struct error *err)
{
    const char *names[PRESETS];
    char near[256], list[96];

    /* An argument of plugstack.conf prints nothing. */
    if (what[0] == '-')
        snprintf(list, sizeof(list), "%s=list", what);
    else
        snprintf(list, sizeof(list), "`srun --megatron-model=list`");
    for (size_t i = 0; i < PRESETS; i++) {
        if (strcasecmp(presets[i].name, name) == 0)
            return &presets[i];
        names[i] = presets[i].name;
    }
    if (other_families(name, near, sizeof(near)) > 0 ||
        nearest_names(name, names, PRESETS, near, sizeof(near)) > 0)
        error_set(err, "%s=%.100s is an unknown model; did you mean %s? %s shows all", what, name,
                  near, list);
    else
        error_set(err, "%s=%.100s is an unknown model; %s shows all", what, name, list);
    return NULL;
}

int64_t vocabulary_padded(int64_t vocabulary, int64_t divisor, int64_t tp)
{
    int64_t multiple = divisor * tp;

    return (vocabulary + multiple - 1) / multiple * multiple;
}

/* What a masked language model has besides: the head, and in BERT token types, pooler and the head
 * of sentence pairs; in RoBERTa two positions before the first. */
static int64_t masked_parameters(const struct model_shape *shape, int64_t vocabulary)
{
    int64_t h = shape->hidden, head = h * h + 3 * h + vocabulary;

    if (shape->family == MODEL_ROBERTA)
        return head + 2 * h;
    if (shape->family == MODEL_BERT || shape->family == MODEL_MEGATRON_BERT)
        return head + 2 * h + h * h + h + 2 * h + 2;
    return 0;
}

/* Is the option, with its value if it has one, among those of a preset? */
static bool has(const struct model_shape *shape, const char *option)
{
    size_t length = strlen(option);

    for (const char *at = shape->options; at && *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && strncmp(at, option, length) == 0)
            return true;
    return false;
}

int64_t model_parameters(const struct model_shape *shape, int64_t padding)
{
    int64_t h = shape->hidden, f = shape->ffn_hidden, d = shape->kv_channels;
    int64_t q = shape->heads * d, kv = shape->query_groups * d;
    int64_t vocabulary = vocabulary_padded(shape->vocabulary, padding, 1);
    bool rms = has(shape, "normalization=RMSNorm");
    int64_t norm = rms ? h : 2 * h, fc1 = has(shape, "swiglu") ? 2 * f : f;
    int64_t layer = h * (q + 2 * kv) + q * h + fc1 * h + f * h + 2 * norm;

    if (!has(shape, "disable-bias-linear"))
        layer += q + 2 * kv + h + fc1 + h;
    else if (has(shape, "add-qkv-bias"))
        layer += q + 2 * kv;
    if (has(shape, "qk-layernorm"))
        layer += rms ? 2 * d : 4 * d;
    return shape->layers * layer +
           vocabulary * h * (has(shape, "untie-embeddings-and-output-weights") ? 2 : 1) +
           (has(shape, "position-embedding-type=rope") ? 0 : shape->sequence * h) + norm +
           masked_parameters(shape, vocabulary);
}

void preset_describe(const struct model_shape *shape, char *buffer, size_t size)
{
    snprintf(buffer, size,
             "%-18s %3" PRId64 " layers, hidden %5" PRId64 ", %3" PRId64 " heads, %3" PRId64
             " query groups, vocabulary %6" PRId64 ", sequence %4" PRId64
             ", %.1f billion parameters",
             shape->name, shape->layers, shape->hidden, shape->heads, shape->query_groups,
             shape->vocabulary, shape->sequence, (double)model_parameters(shape, 128) / 1e9);
}

void preset_print(FILE *stream)
{
    char line[256];

    for (size_t i = 0; i < PRESETS; i++) {
        if (i == 0 || strcmp(presets[i].group, presets[i - 1].group) != 0)
            fprintf(stream, "%s%s\n", i ? "\n" : "", presets[i].group);
        preset_describe(&presets[i], line, sizeof(line));
        fprintf(stream, "%s\n", line);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "preset.h"
#include "nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define GPT_FEATURES   (PRESET_BIAS | PRESET_TIED)
#define LLAMA_FEATURES (PRESET_ROPE | PRESET_RMS | PRESET_SWIGLU)
#define NEMO_FEATURES  (PRESET_ROPE | PRESET_HALF_ROTARY)

/* Sizes, in this order: layers, hidden, ffn, heads, groups, head size, vocabulary, sequence. */
#define GPT(group, name, layers, hidden, heads, sequence)                                       \
    {                                                                                           \
        name, MODEL_GPT, layers, hidden, 4 * (hidden), heads, heads, (hidden) / (heads), 50257, \
            sequence, 0, group, GPT_FEATURES, 0, 1e-5                                           \
    }
#define NEMO(name, layers, hidden, ffn, heads, vocabulary)                                    \
    {                                                                                         \
        name, MODEL_LLAMA, layers, hidden, ffn, heads, heads, (hidden) / (heads), vocabulary, \
            2048, 10000, nemo_gpt, NEMO_FEATURES | PRESET_SWIGLU, 0, 1e-5                     \
    }
#define LLAMA(name, layers, hidden, ffn, heads, groups, vocabulary, sequence, base, tied)      \
    {                                                                                          \
        name, MODEL_LLAMA, layers, hidden, ffn, heads, groups, (hidden) / (heads), vocabulary, \
            sequence, base, "Llama", LLAMA_FEATURES | (tied), 0, 1e-5                          \
    }
#define MISTRAL(name, layers, hidden, vocabulary, base, window)                                  \
    {                                                                                            \
        name, MODEL_LLAMA, layers, hidden, 14336, 32, 8, 128, vocabulary, 8192, base, "Mistral", \
            LLAMA_FEATURES, window, 1e-5                                                         \
    }
#define QWEN25(name, layers, hidden, ffn, heads, groups, vocabulary, tied)                     \
    {                                                                                          \
        name, MODEL_LLAMA, layers, hidden, ffn, heads, groups, (hidden) / (heads), vocabulary, \
            4096, 1000000, "Qwen 2.5", LLAMA_FEATURES | PRESET_QKV_BIAS | (tied), 0, 1e-6      \
    }
#define QWEN3(name, layers, hidden, ffn, heads, tied)                                           \
    {                                                                                           \
        name, MODEL_LLAMA, layers, hidden, ffn, heads, 8, 128, 151936, 4096, 1000000, "Qwen 3", \
            LLAMA_FEATURES | PRESET_QK_NORM | (tied), 0, 1e-6                                   \
    }

/* Masked language models: 'vocabulary' words, samples of 512 tokens. */
#define MASKED(name, family, layers, hidden, heads, vocabulary)                                   \
    {                                                                                             \
        name, family, layers, hidden, 4 * (hidden), heads, heads, (hidden) / (heads), vocabulary, \
            512, 0, "RoBERTa and BERT", GPT_FEATURES, 0, 1e-5                                     \
    }

static const char megatron_gpt[] = "Megatron-LM GPT", nemo_gpt[] = "NeMo GPT-3 and Nemotron";

static const struct model_shape presets[] = {
    GPT(megatron_gpt, "gpt2-345m", 24, 1024, 16, 1024),
    GPT(megatron_gpt, "gpt2-8b", 42, 4096, 32, 1024),
    GPT(megatron_gpt, "1.7B", 24, 2304, 24, 2048),
    GPT(megatron_gpt, "3.6B", 30, 3072, 32, 2048),
    GPT(megatron_gpt, "7.5B", 36, 4096, 32, 2048),
    GPT(megatron_gpt, "18.4B", 40, 6144, 48, 2048),
    GPT(megatron_gpt, "39.1B", 48, 8192, 64, 2048),
    GPT(megatron_gpt, "76.1B", 60, 10240, 80, 2048),
    GPT(megatron_gpt, "145.6B", 80, 12288, 96, 2048),
    GPT(megatron_gpt, "310.1B", 96, 16384, 128, 2048),
    GPT(nemo_gpt, "nemo-126m", 12, 768, 12, 2048),
    NEMO("nemo-400m", 24, 1024, 2688, 16, 50257),
    NEMO("nemo-1b", 24, 2048, 5440, 16, 50257),
    {"nemo-4b", MODEL_GPT, 32, 3072, 9216, 24, 8, 128, 256000, 4096, 10000, nemo_gpt,
     NEMO_FEATURES | PRESET_SQUARED_RELU, 0, 1e-5},
    GPT(nemo_gpt, "nemo-5b", 24, 4096, 32, 2048),
    NEMO("nemo-8b", 32, 4096, 10880, 32, 256000),
    GPT(nemo_gpt, "nemo-20b", 44, 6144, 48, 2048),
    GPT(nemo_gpt, "nemo-40b", 48, 8192, 64, 2048),
    NEMO("nemo-43b", 48, 8192, 21824, 64, 256000),
    GPT(nemo_gpt, "nemo-175b", 96, 12288, 96, 2048),
    LLAMA("llama2-7b", 32, 4096, 11008, 32, 32, 32000, 4096, 10000, 0),
    LLAMA("llama2-13b", 40, 5120, 13824, 40, 40, 32000, 4096, 10000, 0),
    LLAMA("llama2-70b", 80, 8192, 28672, 64, 8, 32000, 4096, 10000, 0),
    LLAMA("llama3-8b", 32, 4096, 14336, 32, 8, 128256, 8192, 500000, 0),
    LLAMA("llama3-70b", 80, 8192, 28672, 64, 8, 128256, 8192, 500000, 0),
    LLAMA("llama3.1-405b", 126, 16384, 53248, 128, 8, 128256, 8192, 500000, 0),
    LLAMA("llama3.2-1b", 16, 2048, 8192, 32, 8, 128256, 8192, 500000, PRESET_TIED),
    LLAMA("llama3.2-3b", 28, 3072, 8192, 24, 8, 128256, 8192, 500000, PRESET_TIED),
    MISTRAL("mistral-7b-v0.1", 32, 4096, 32000, 10000, 4096),
    MISTRAL("mistral-7b", 32, 4096, 32768, 1000000, 0),
    MISTRAL("mistral-nemo-12b", 40, 5120, 131072, 1000000, 0),
    QWEN25("qwen2.5-0.5b", 24, 896, 4864, 14, 2, 151936, PRESET_TIED),
    QWEN25("qwen2.5-1.5b", 28, 1536, 8960, 12, 2, 151936, PRESET_TIED),
    QWEN25("qwen2.5-3b", 36, 2048, 11008, 16, 2, 151936, PRESET_TIED),
    QWEN25("qwen2.5-7b", 28, 3584, 18944, 28, 4, 152064, 0),
    QWEN25("qwen2.5-14b", 48, 5120, 13824, 40, 8, 152064, 0),
    QWEN25("qwen2.5-32b", 64, 5120, 27648, 40, 8, 152064, 0),
    QWEN25("qwen2.5-72b", 80, 8192, 29568, 64, 8, 152064, 0),
    QWEN3("qwen3-0.6b", 28, 1024, 3072, 16, PRESET_TIED),
    QWEN3("qwen3-1.7b", 28, 2048, 6144, 16, PRESET_TIED),
    QWEN3("qwen3-4b", 36, 2560, 9728, 32, PRESET_TIED),
    QWEN3("qwen3-8b", 36, 4096, 12288, 32, 0),
    QWEN3("qwen3-14b", 40, 5120, 17408, 40, 0),
    QWEN3("qwen3-32b", 64, 5120, 25600, 64, 0),
    MASKED("roberta-base", MODEL_ROBERTA, 12, 768, 12, 50265),
    MASKED("roberta-large", MODEL_ROBERTA, 24, 1024, 16, 50265),
    MASKED("bert-base", MODEL_BERT, 12, 768, 12, 30522),
    MASKED("bert-large", MODEL_BERT, 24, 1024, 16, 30522),
    MASKED("megatron-bert-345m", MODEL_MEGATRON_BERT, 24, 1024, 16, 30522),
    MASKED("megatron-bert-1.3b", MODEL_MEGATRON_BERT, 24, 2048, 32, 30522),
    MASKED("megatron-bert-3.9b", MODEL_MEGATRON_BERT, 48, 2560, 40, 30522),
};

enum { PRESETS = sizeof(presets) / sizeof(presets[0]) };

const struct model_shape *preset_at(size_t index)
{
    return index < PRESETS ? &presets[index] : NULL;
}

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

int64_t model_parameters(const struct model_shape *shape, int64_t padding)
{
    int64_t h = shape->hidden, f = shape->ffn_hidden, d = shape->kv_channels;
    int64_t q = shape->heads * d, kv = shape->query_groups * d;
    int64_t vocabulary = vocabulary_padded(shape->vocabulary, padding, 1);
    unsigned has = shape->features;
    int64_t norm = has & PRESET_RMS ? h : 2 * h, fc1 = has & PRESET_SWIGLU ? 2 * f : f;
    int64_t layer = h * (q + 2 * kv) + q * h + fc1 * h + f * h + 2 * norm;

    if (has & PRESET_BIAS)
        layer += q + 2 * kv + h + fc1 + h;
    else if (has & PRESET_QKV_BIAS)
        layer += q + 2 * kv;
    if (has & PRESET_QK_NORM)
        layer += has & PRESET_RMS ? 2 * d : 4 * d;
    return shape->layers * layer + vocabulary * h * (has & PRESET_TIED ? 1 : 2) +
           (has & PRESET_ROPE ? 0 : shape->sequence * h) + norm +
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

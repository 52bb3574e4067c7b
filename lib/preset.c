/* SPDX-License-Identifier: Apache-2.0 */
#include "preset.h"
#include "nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#define GPT(name, layers, hidden, heads, sequence)                                              \
    {                                                                                           \
        name, MODEL_GPT, layers, hidden, 4 * (hidden), heads, heads, (hidden) / (heads), 50257, \
            sequence, 0                                                                         \
    }
#define LLAMA(name, layers, hidden, ffn, heads, groups, vocabulary, sequence, base)            \
    {                                                                                          \
        name, MODEL_LLAMA, layers, hidden, ffn, heads, groups, (hidden) / (heads), vocabulary, \
            sequence, base                                                                     \
    }

/* Masked language models: 'vocabulary' words, samples of 512 tokens. */
#define MASKED(name, family, layers, hidden, heads, vocabulary)                                   \
    {                                                                                             \
        name, family, layers, hidden, 4 * (hidden), heads, heads, (hidden) / (heads), vocabulary, \
            512, 0                                                                                \
    }

static const struct model_shape presets[] = {
    GPT("gpt2-345m", 24, 1024, 16, 1024),
    GPT("gpt2-8b", 42, 4096, 32, 1024),
    GPT("1.7B", 24, 2304, 24, 2048),
    GPT("3.6B", 30, 3072, 32, 2048),
    GPT("7.5B", 36, 4096, 32, 2048),
    GPT("18.4B", 40, 6144, 48, 2048),
    GPT("39.1B", 48, 8192, 64, 2048),
    GPT("76.1B", 60, 10240, 80, 2048),
    GPT("145.6B", 80, 12288, 96, 2048),
    GPT("310.1B", 96, 16384, 128, 2048),
    LLAMA("llama2-7b", 32, 4096, 11008, 32, 32, 32000, 4096, 10000),
    LLAMA("llama2-13b", 40, 5120, 13824, 40, 40, 32000, 4096, 10000),
    LLAMA("llama2-70b", 80, 8192, 28672, 64, 8, 32000, 4096, 10000),
    LLAMA("llama3-8b", 32, 4096, 14336, 32, 8, 128256, 8192, 500000),
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

const struct model_shape *preset_find(const char *what, const char *name, struct error *err)
{
    const char *names[PRESETS];
    char near[256];

    for (size_t i = 0; i < PRESETS; i++) {
        if (strcasecmp(presets[i].name, name) == 0)
            return &presets[i];
        names[i] = presets[i].name;
    }
    if (nearest_names(name, names, PRESETS, near, sizeof(near)) > 0)
        error_set(err, "%s=%.100s is an unknown model; did you mean %s? %s=list shows all", what,
                  name, near, what);
    else
        error_set(err, "%s=%.100s is an unknown model; %s=list shows all", what, name, what);
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
    int64_t matrices = h * (q + 2 * kv) + q * h + f * h;

    if (shape->family == MODEL_LLAMA)
        return shape->layers * (matrices + 2 * f * h + 2 * h) + 2 * vocabulary * h + h;
    return shape->layers * (matrices + h * f + (q + 2 * kv) + h + f + h + 4 * h) +
           (vocabulary + shape->sequence) * h + 2 * h + masked_parameters(shape, vocabulary);
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

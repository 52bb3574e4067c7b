/* SPDX-License-Identifier: Apache-2.0 */
/* Model shapes, and presets for well-known models. */
#ifndef MEGATRON_PRESET_H
#define MEGATRON_PRESET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "error.h"

enum model_family { MODEL_GPT, MODEL_LLAMA, MODEL_ROBERTA, MODEL_BERT, MODEL_MEGATRON_BERT };

struct model_shape {
    const char *name;
    enum model_family family;
    int64_t layers, hidden, ffn_hidden, heads;
    int64_t query_groups; /* equals heads without grouped-query attention */
    int64_t kv_channels;  /* size of one head */
    int64_t vocabulary;   /* actual size, without padding */
    int64_t sequence;     /* sequence length and number of positions */
    double rotary_base;   /* a model with rotary position embeddings (Llama) */
    /* Of presets only: */
    const char *group;   /* heading in a list */
    const char *options; /* of `megatron train`, without dashes: "normalization=RMSNorm|swiglu" */
};

/* The preset called 'name' (case-insensitive), or NULL with the closest names in 'err'. 'what'
 * names the option in the error. */
const struct model_shape *preset_find(const char *what, const char *name, struct error *err);

/* A one-line summary of a preset for a list: "llama2-70b 80 layers, hidden 8192, ...". */
void preset_describe(const struct model_shape *shape, char *buffer, size_t size);

/* Print all presets, grouped by family. */
void preset_print(FILE *stream);

/* The number of parameters of a preset, with the vocabulary padded to a multiple of
 * 'padding'. */
int64_t model_parameters(const struct model_shape *shape, int64_t padding);

/* The vocabulary size padded to a multiple of 'divisor' * 'tp', as in Megatron. */
int64_t vocabulary_padded(int64_t vocabulary, int64_t divisor, int64_t tp);

#endif

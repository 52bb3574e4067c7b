/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <stddef.h>
#include <string.h>

/* The first entry that matches counts. */
static const struct source sources[] = {
    {"BigScience experiments/tr3m", "", "jean-zay-v100", FLOPS_8PT, 0, 0, 1, NULL},
    {"BigScience experiments/gpt2", "", "jean-zay-v100", FLOPS_6PT, 0, 0, 1, NULL},
    /* The links of the nodes were tuned on 25 February. */
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) ", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1, "02-25"},
    {"BigScience", "", "jean-zay-a100", FLOPS_EXECUTED, 0, 0, 1, NULL},
    {"Narayanan 2021 table 2 (ZeRO-3)", "", NULL, FLOPS_EXECUTED, 1, 0, 1, NULL},
    {"Narayanan", "", "dgx-a100", FLOPS_EXECUTED, 0, 0, 1, NULL},
    {"MT-NLG", "", "selene-deepspeed", FLOPS_EXECUTED, 0, 0, 1, NULL},
    {"Megatron-LM README 2020", "V100", "dgx2", FLOPS_EXECUTED, 0, 0, 1, NULL},
    {"Megatron-LM README 2020", "A100", "dgx-a100-40", FLOPS_EXECUTED, 0, 0, 1, NULL},
    {"Korthikanti", "", "dgx-a100", FLOPS_PAPER, 0, 0, 1, NULL},
    {"MegaScale (arXiv 2402.15627) table 2 [MegaScale", "", "megascale-a100", FLOPS_PAPER, 0, 0, 1,
     NULL},
    {"MegaScale figure 9 [MegaScale", "", "megascale-a100", FLOPS_PAPER, 0, 0, 1, NULL},
    {"MegaScale", "", "bytedance-a100", FLOPS_PAPER, 0, 0, 1, NULL},
    {"vTrain ground truth; one node", "", "vtrain-a100-single", FLOPS_EXECUTED, 0, 1, 1, NULL},
    {"vTrain", "", "vtrain-a100", FLOPS_EXECUTED, 0, 0, 1, NULL},
    {"Llama 3", "", "meta-h100", FLOPS_MODEL, 1, 0, 2, NULL},
    {"Megatron-Bridge", "", NULL, FLOPS_CAUSAL, 0, 0, 1, NULL},
    {"torchtitan", "", NULL, FLOPS_MODEL, 1, 0, 1, NULL},
    {"llm-foundry", "", NULL, FLOPS_MODEL, 1, 0, 1, NULL},
    {"", "", NULL, FLOPS_MODEL, 0, 0, 1, NULL},
};

static int matches(const struct source *source, const char *name, const char *gpu)
{
    size_t length = strlen(source->prefix);

    return strncmp(name, source->prefix, length) == 0 &&
           (!source->before || strcmp(name + length, source->before) < 0) &&
           strncmp(gpu, source->gpu, strlen(source->gpu)) == 0;
}

const struct source *source_find(const char *name, const char *gpu)
{
    size_t i = 0;

    while (!matches(&sources[i], name, gpu))
        i++;
    return &sources[i];
}

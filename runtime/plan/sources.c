/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <stddef.h>
#include <string.h>

/* The first entry that matches counts. */
static const struct source sources[] = {
    {"BigScience experiments/tr3m", "", "jean-zay-v100", FLOPS_8PT, 0, 0, 1},
    {"BigScience experiments/gpt2", "", "jean-zay-v100", FLOPS_6PT, 0, 0, 1},
    /* Runs before the links of the nodes were tuned, by their date. */
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) 02-1", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1},
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) 02-20", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1},
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) 02-21", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1},
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) 02-22", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1},
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) 02-23", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1},
    {"BigScience tr11 prequel (Megatron-DeepSpeed; fp16) 02-24", "", "jean-zay-a100-early",
     FLOPS_EXECUTED, 0, 0, 1},
    {"BigScience", "", "jean-zay-a100", FLOPS_EXECUTED, 0, 0, 1},
    {"Narayanan 2021 table 2 (ZeRO-3)", "", NULL, FLOPS_EXECUTED, 1, 0, 1},
    {"Narayanan", "", "dgx-a100", FLOPS_EXECUTED, 0, 0, 1},
    {"MT-NLG", "", "selene-deepspeed", FLOPS_EXECUTED, 0, 0, 1},
    {"Megatron-LM README 2020", "V100", "dgx2", FLOPS_EXECUTED, 0, 0, 1},
    {"Megatron-LM README 2020", "A100", "dgx-a100-40", FLOPS_EXECUTED, 0, 0, 1},
    {"Korthikanti", "", "dgx-a100", FLOPS_PAPER, 0, 0, 1},
    {"MegaScale (arXiv 2402.15627) table 2 [MegaScale", "", "megascale-a100", FLOPS_PAPER, 0, 0, 1},
    {"MegaScale figure 9 [MegaScale", "", "megascale-a100", FLOPS_PAPER, 0, 0, 1},
    {"MegaScale", "", "bytedance-a100", FLOPS_PAPER, 0, 0, 1},
    {"vTrain ground truth; one node", "", "vtrain-a100-single", FLOPS_EXECUTED, 0, 1, 1},
    {"vTrain", "", "vtrain-a100", FLOPS_EXECUTED, 0, 0, 1},
    {"Llama 3", "", "meta-h100", FLOPS_MODEL, 1, 0, 2},
    {"Megatron-Bridge", "", NULL, FLOPS_CAUSAL, 0, 0, 1},
    {"torchtitan", "", NULL, FLOPS_MODEL, 1, 0, 1},
    {"llm-foundry", "", NULL, FLOPS_MODEL, 1, 0, 1},
    {"", "", NULL, FLOPS_MODEL, 0, 0, 1},
};

const struct source *source_find(const char *name, const char *gpu)
{
    size_t i = 0;

    while (strncmp(name, sources[i].prefix, strlen(sources[i].prefix)) != 0 ||
           strncmp(gpu, sources[i].gpu, strlen(sources[i].gpu)) != 0)
        i++;
    return &sources[i];
}

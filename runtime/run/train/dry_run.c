/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron train --dry-run`: on which GPUs the run fits, then what its ranks need. */
#include "rank_memory.h"
#include "base/core/gib.h"
#include "engine/parallel/ranks.h"
#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Memory that a process can use on these GPUs, in GiB (ECC and the driver take some). */
static const struct card {
    const char *name;
    double memory;
    int fp8, fp8_blocks; /* has fp8, also with blockwise scales */
} cards[] = {{"A100-40", 39.4, 0, 0},
             {"A100-80", 79.1, 0, 0},
             {"H100", 79.1, 1, 1},
             {"H200", 139.7, 1, 1},
             {"B200", 178.3, 1, 0}};

enum { CARDS = sizeof(cards) / sizeof(cards[0]) };

/* GiB besides the arenas: the CUDA context with the kernels of this program, cuBLASLt and cuDNN;
 * buffers of NCCL for each group of two or more ranks; cuBLASLt's workspaces. Rounded up. */
static const double CONTEXT = 0.9, NCCL_GROUP = 0.3, GEMM_WORKSPACES = 0.1;

enum { USES = 8 };

/* A use of GPU memory. */
struct use {
    const char *name;
    double gib;
};

/* The workspace of attention: fused kernels keep the gradient of the queries in fp32; otherwise
 * scores, probabilities and their gradients of one sample are in memory. */
static double attention_workspace(const struct arguments *a)
{
    const struct model_shape *s = &a->model_config.network.shape;
    double heads = (double)s->heads / (double)a->layout.tp;
    double rows = (double)s->sequence / (double)a->layout.cp, type;

    type = a->precision.bf16 || a->precision.fp16 ? 2 : 4;
    if (type == 4 || a->machine.attention_backend == ATTENTION_UNFUSED ||
        a->machine.attention_backend == ATTENTION_LOCAL)
        return heads * rows * (double)s->sequence * (8 + 2 * type) / GIB;
    return 4 * heads * rows * (double)(s->kv_channels + 2) * (double)a->run.micro_batch_size / GIB;
}

static double nccl_buffers(const struct layout *l)
{
    int groups = (l->tp > 1) + (l->pp > 1) + (l->cp > 1) + (l->dp * l->cp > 1);

    return groups > 0 ? NCCL_GROUP * (groups + 1) : 0; /* all ranks are a group, too */
}

static double uses_of(const struct arguments *a, const struct rank_memory *memory,
                      struct use uses[USES])
{
    const struct model_memory *m = &memory->device;
    const struct use all[USES] = {
        {"weights", gib((double)m->weights)},
        {"gradients", gib((double)m->gradients)},
        {"optimizer", gib((double)m->optimizer)},
        {"activations", gib((double)m->activations)},
        {"attention workspace", attention_workspace(a)},
        {"CUDA context", CONTEXT},
        {"NCCL", nccl_buffers(&a->layout)},
        {"other workspaces", GEMM_WORKSPACES},
    };
    double total = 0;

    for (int i = 0; i < USES; i++) {
        uses[i] = all[i];
        total += all[i].gib;
    }
    return total;
}

/* The stage that needs most. Ranks of a stage differ only in rounding. */
static int find_fullest(const struct arguments *a, struct use uses[USES], int64_t *stage,
                        double *total, struct error *err)
{
    *total = -1;
    for (int64_t pp = 0; pp < a->layout.pp; pp++) {
        struct layout_position at = {.pp = pp};
        struct use own[USES];
        struct rank_memory memory;
        double sum;

        if (rank_memory_of(a, &at, &memory, err) < 0)
            return -1;
        sum = uses_of(a, &memory, own);
        if (sum <= *total)
            continue;
        *total = sum;
        *stage = pp;
        for (int i = 0; i < USES; i++)
            uses[i] = own[i];
    }
    return 0;
}

/* Does the GPU support the run's data types? */
static int has_type(const struct arguments *a, const struct card *card)
{
    const struct fp8_config *fp8 = &a->model_config.numerics.fp8;

    return fp8->format == FP8_NONE || (fp8->recipe == FP8_BLOCKWISE ? card->fp8_blocks : card->fp8);
}

static int fits_card(const struct arguments *a, const struct card *card, double total)
{
    return total <= card->memory && has_type(a, card);
}

static void print_list(const struct arguments *a, const char *what, double total, int fits)
{
    int count = 0;

    for (int i = 0; i < CARDS; i++)
        if (fits_card(a, &cards[i], total) == fits)
            printf("%s%s", count++ ? ", " : what, cards[i].name);
    if (count)
        printf("\n");
}

/* The verdict, which part is too large, and what to do about it. */
static void print_verdict(const struct arguments *a, const struct use uses[USES], double total)
{
    struct error advice;
    int largest = 0, fitting = 0;

    for (int i = 0; i < USES; i++)
        if (uses[i].gib > uses[largest].gib)
            largest = i;
    print_list(a, "fits: ", total, 1);
    print_list(a, "does not fit: ", total, 0);
    for (int i = 0; i < CARDS; i++) {
        fitting += total <= cards[i].memory;
        if (!has_type(a, &cards[i]))
            printf("  %s: no fp8%s\n", cards[i].name, cards[i].fp8 ? " with blockwise scales" : "");
        else if (total > cards[i].memory)
            printf("  %s: %.1f GiB too much; the largest part is: %s (%.1f GiB)\n", cards[i].name,
                   total - cards[i].memory, uses[largest].name, uses[largest].gib);
        else
            printf("  %s: %.1f GiB free\n", cards[i].name, cards[i].memory - total);
    }
    if (fitting < CARDS) {
        error_set(&advice, "  the run is too large for %s of them", fitting ? "some" : "all");
        rank_memory_advise(a, &advice);
        printf("%s\n", advice.text);
    }
}

int train_dry_run(const struct arguments *a, struct error *err)
{
    struct use uses[USES];
    int64_t stage = 0;
    double total;

    if (find_fullest(a, uses, &stage, &total, err) < 0)
        return -1;
    if (a->machine.device != DEVICE_CPU) {
        print_verdict(a, uses, total);
        printf("memory of the fullest rank (pipeline stage %" PRId64 "): %.1f GiB\n ", stage,
               total);
        for (int i = 0; i < USES; i++)
            if (uses[i].gib > 0)
                printf(" %s %.2f%s", uses[i].name, uses[i].gib, i + 1 < USES ? "," : "\n");
    }
    if (a->output.verbose)
        arguments_print(a, stdout);
    rank_memory_print_run(a);
    printf(" > learning rate after the first step: %.3E\n",
           step_lr(&a->rules, (double)batch_size_at(a, 0)));
    return rank_memory_print_ranks(a, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "own.h"

#include <stdlib.h>
#include <string.h>

#include "run/train/rank_memory.h"

/* Are there options about the data? Without any, a BERT model would have to name its tokenizer. */
static int names_tokens(const struct options_result *given)
{
    static const char *const names[] = {"data-path",       "train-data-path", "valid-data-path",
                                        "test-data-path",  "masked-data",     "tokenizer-type",
                                        "tokenizer-model", "vocab-file"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (options_given(given, names[i]))
            return 1;
    return 0;
}

int own_open(struct own *own, const char *const *words, int count, int64_t ranks, struct error *err)
{
    memset(own, 0, sizeof(*own));
    own->ranks = ranks;
    own->world = (struct world){.size = 1, .local_size = 1, .nodes = 1, .source = "default"};
    arguments_default(&own->arguments);
    if (options_parse(arguments_table, &own->arguments, count, words, &own->given, err) < 0)
        return -1;
    if (own->given.word_count > 0)
        return error_set_code(err, ERROR_USAGE, "unexpected word %s; options begin with two dashes",
                              own->given.words[0]);
    /* Neither the schedule of the learning rate nor the data changes the plan. */
    own->arguments.output.dry_run = 1;
    if (!names_tokens(&own->given))
        own->arguments.data.mock_data = 1;
    if (own->arguments.rules.lr < 0)
        own->arguments.rules.lr = 1e-4;
    if (own->arguments.run.train_iters < 0 && own->arguments.run.train_samples < 0)
        own->arguments.run.train_iters = 1;
    return 0;
}

void own_close(struct own *own)
{
    struct arguments *a = &own->arguments;

    options_result_clear(&own->given);
    free(a->run.rampup.items);
    free(a->data.data_path.items);
    free(a->data.train_data_path.items);
    free(a->data.valid_data_path.items);
    free(a->data.test_data_path.items);
}

/* The second word of --fp8-format. */
enum { OWN_HYBRID = 1 };

static int derive(const struct own *own, const struct own_layout *layout, int64_t ranks,
                  struct arguments *a, struct error *err)
{
    *a = own->arguments;
    a->machine.world_size = ranks;
    a->parallel.tp = layout->tp;
    a->parallel.pp = layout->pp;
    a->parallel.cp = layout->cp;
    a->run.micro_batch_size = layout->micro_batch;
    a->parallel.recompute_activations = 0;
    a->parallel.recompute_granularity = layout->recompute == PLAN_RECOMPUTE_FULL ? GRANULARITY_FULL
                                        : layout->recompute == PLAN_RECOMPUTE_SELECTIVE
                                            ? GRANULARITY_SELECTIVE
                                            : -1;
    a->parallel.recompute_method = layout->recompute == PLAN_RECOMPUTE_FULL ? METHOD_UNIFORM : -1;
    if (layout->fp8)
        a->precision.fp8.format = OWN_HYBRID;
    /* The layers are needed before arguments_derive fills in those of a preset. */
    if (layout->chunks > 1) {
        const struct model_shape *preset =
            a->model.preset ? preset_find("--megatron-model", a->model.preset, err) : NULL;
        int64_t layers = a->model.network.shape.layers > 0 ? a->model.network.shape.layers
                         : preset                          ? preset->layers
                                                           : 0;

        a->parallel.layers_per_virtual_stage = layers / (layout->pp * layout->chunks);
    }
    if (arguments_derive(a, &own->given, &own->world, err) == 0)
        return 0;
    err->code = ERROR_USAGE;
    return -1;
}

static void fill_run(const struct arguments *a, const struct own_layout *layout,
                     struct plan_run *run)
{
    const struct model_config *m = &a->model_config;

    *run = (struct plan_run){
        .shape = m->network.shape,
        .gated = m->network.swiglu,
        .tied = m->network.tied,
        .bf16 = m->numerics.type == TYPE_BF16,
        .layout = a->layout,
        .chunks = m->split.chunks,
        .micro_batch = m->micro_batch,
        .global_batch = a->run.global_batch_size,
        .recompute = layout->recompute,
        .precision = m->numerics.fp8.format == FP8_NONE ? MACHINE_BF16 : MACHINE_FP8,
        .own = 1,
        .offloaded = a->step.offload ? a->step.offload_fraction : 0,
        .narrowed = 2 * (a->precision.exp_avg_bf16 + a->precision.exp_avg_sq_bf16)};
    run->shape.vocabulary = m->padded_vocabulary;
}

int own_model(const struct own *own, struct plan_run *run, struct error *err)
{
    const struct own_layout alone = {1, 1, 1, 1, 1, PLAN_RECOMPUTE_NONE, 0};
    struct arguments a;

    if (derive(own, &alone, 1, &a, err) < 0)
        return -1;
    fill_run(&a, &alone, run);
    return 0;
}

int own_run(const struct own *own, const struct own_layout *layout, struct plan_run *run,
            struct error *err)
{
    struct arguments a;

    if (derive(own, layout, own->ranks, &a, err) < 0)
        return -1;
    fill_run(&a, layout, run);
    return 0;
}

int own_memory(const struct own *own, const struct own_layout *layout, struct plan_memory *memory,
               struct error *err)
{
    const int64_t stages[] = {0, 1, layout->pp - 1};
    struct arguments a;

    *memory = (struct plan_memory){0};
    if (derive(own, layout, own->ranks, &a, err) < 0)
        return -1;
    /* All stages between the first and the last hold as many layers as the second, and fewer
     * micro-batches. */
    for (int i = 0; i < 3; i++) {
        struct layout_position at = {.pp = stages[i] < layout->pp ? stages[i] : layout->pp - 1};
        struct rank_memory rank;
        double total;

        if ((i > 0 && at.pp == stages[i - 1]) || (i == 1 && layout->pp == 1))
            continue;
        if (rank_memory_of(&a, &at, &rank, err) < 0)
            return -1;
        total = (double)(rank.device.weights + rank.device.gradients + rank.device.optimizer +
                         rank.device.activations);
        if (total > memory->total)
            *memory = (struct plan_memory){.weights = (double)rank.device.weights,
                                           .gradients = (double)rank.device.gradients,
                                           .optimizer = (double)rank.device.optimizer,
                                           .activations = (double)rank.device.activations,
                                           .total = total};
    }
    return 0;
}

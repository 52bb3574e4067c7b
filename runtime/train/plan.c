/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"
#include "log.h"
#include "ranks.h"
#include "train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of this many steps or more should save checkpoints. */
enum { LONG_RUN = 1000 };

/* Micro-batches per data-parallel rank in a global batch. */
static int64_t micros_of(const struct arguments *a, int64_t batch)
{
    return batch / (a->micro_batch_size * a->layout.dp);
}

struct engine_config plan_engine(const struct arguments *a)
{
    double fixed = a->loss_scale > 0 ? a->loss_scale : 1;

    return (struct engine_config){
        .model = a->model_config,
        .optimizer = {.rules = a->rules,
                      .epsilon = a->epsilon,
                      .initial_scale = a->rules.dynamic_scale ? a->initial_loss_scale : fixed,
                      .decay_all = a->mlm.decay_all,
                      .tied = a->model_config.tied,
                      .offload = a->offload ? a->offload_fraction : 0,
                      .half = a->mlm.memory_efficient_fp16,
                      .muon = a->muon},
        .min_micros = micros_of(a, batch_size_at(a, 0)),
        .max_micros = micros_of(a, a->global_batch_size),
        .eval_micros = a->eval_iters > 0 ? micros_of(a, a->global_batch_size) : 0,
        /* Slightly longer than comm's own timeout, because comm can name the collective that hangs.
         */
        .deadline = 60.0 * a->timeout_minutes + 10,
        .one_by_one = a->profile,
    };
}

/* Requested samples of each split, as Megatron computes them. */
static void wanted_samples(const struct arguments *a, int64_t samples[DATASET_SPLITS])
{
    samples[DATASET_TRAIN] = a->total_samples;
    samples[DATASET_VALID] = a->full_validation ? -1 : a->eval_samples[0];
    samples[DATASET_TEST] = a->eval_samples[1];
}

void plan_dataset(const struct arguments *a, struct dataset_config *config)
{
    memset(config, 0, sizeof(*config));
    config->data_path = a->data_path;
    config->split_path[DATASET_TRAIN] = a->train_data_path;
    config->split_path[DATASET_VALID] = a->valid_data_path;
    config->split_path[DATASET_TEST] = a->test_data_path;
    config->split = a->split;
    config->mock = a->mock_data;
    wanted_samples(a, config->samples);
    config->sequence_length = a->seq_length;
    config->vocabulary = a->vocab_size;
    config->eod = (int32_t)a->eod_id;
    config->seed = (uint32_t)a->seed;
    config->eod_mask_loss = a->eod_mask_loss;
    config->reset_position_ids = a->reset_position_ids;
    config->reset_attention_mask = a->reset_attention_mask;
    config->masked = a->masked ? &a->mlm.data : NULL;
    config->cache_path = a->data_cache_path;
    if (a->dataloader_type == DATALOADER_CYCLIC) {
        config->cyclic_ranks = a->layout.dp;
        config->cyclic_micro_batch = a->micro_batch_size;
    }
    config->deadline = 60.0 * a->timeout_minutes;
}

static double gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

static size_t device_total(const struct model_memory *m)
{
    return m->weights + m->gradients + m->optimizer + m->activations;
}

static size_t sums_of(const struct arguments *a, const struct parameters *p)
{
    int64_t most = 0;

    if (strcmp(ranks_device((enum device_choice)a->device), "cpu") != 0)
        return 0;
    for (int i = 0; i < p->bucket_count; i++) {
        int64_t both = p->buckets[i].size + bucket_shard(&p->buckets[i], 0).count;

        if (p->buckets[i].shards > 1 && both > most)
            most = both;
    }
    return sizeof(float) * (size_t)most;
}

/* The type of Muon's products: see muon_create. */
static enum device_type muon_type(const struct arguments *a)
{
    int on_cpu = strcmp(ranks_device((enum device_choice)a->device), "cpu") == 0;

    return on_cpu || a->muon.fp32 ? TYPE_FP32 : TYPE_BF16;
}

int plan_rank(const struct arguments *a, const struct layout_position *at, struct rank_plan *plan,
              struct error *err)
{
    struct engine_config engine = plan_engine(a);
    struct parameters p;
    int rc, slots;

    rc = engine_slots(&engine, &a->layout, at->pp, &slots, err);
    if (rc == 0)
        rc = model_plan_memory(&a->model_config, &a->layout, at, slots, &plan->memory, err);
    if (rc < 0)
        return -1;
    rc = parameters_create(&p, &a->model_config, &a->layout, at, err);
    plan->parameters = p.true_elements;
    optimizer_state_memory(p.shard_elements,
                           optimizer_arrays(&engine.optimizer, a->model_config.type),
                           engine.optimizer.offload, &plan->memory.optimizer, &plan->offloaded);
    if (rc == 0 && a->rules.optimizer == OPTIMIZER_MUON)
        plan->memory.optimizer += muon_memory(&a->muon, &p, muon_type(a));
    plan->copy =
        a->save ? (a->save_optimizer ? 3 : 1) * sizeof(float) * (size_t)p.shard_elements : 0;
    plan->sums = sums_of(a, &p);
    parameters_destroy(&p);
    return rc;
}

void plan_print_run(const struct arguments *a)
{
    int64_t samples[DATASET_SPLITS];
    int64_t world = a->layout.tp * a->layout.cp * a->layout.dp * a->layout.pp;
    char valid[24] = "all";

    wanted_samples(a, samples);
    if (samples[DATASET_VALID] >= 0)
        snprintf(valid, sizeof(valid), "%" PRId64, samples[DATASET_VALID]);
    printf("using world size: %" PRId64 ", data-parallel size: %" PRId64
           ", tensor-model-parallel size: %" PRId64 ", pipeline-model-parallel size: %" PRId64
           ", context-parallel size: %" PRId64 "\n",
           world, a->layout.dp, a->layout.tp, a->layout.pp, a->layout.cp);
    printf(" > padded vocab (size: %" PRId64 ") with %" PRId64 " dummy tokens (new size: %" PRId64
           ")\n",
           a->vocab_size, a->model_config.padded_vocabulary - a->vocab_size,
           a->model_config.padded_vocabulary);
    printf(" > datasets target sizes (minimum size):\n    train:      %" PRId64
           "\n    validation: %s\n    test:       %" PRId64 "\n",
           samples[DATASET_TRAIN], valid, samples[DATASET_TEST]);
    arguments_print_fp8(a, stdout);
    printf("setting training iterations to %" PRId64 "\n", a->total_iterations);
    if (a->save && a->save_interval <= 0 && a->total_iterations >= LONG_RUN && !a->skip_train)
        log_note("without --save-interval, a checkpoint is saved only at the end; if the run is "
                 "killed, it starts from scratch");
}

static void print_rank(const struct layout_position *at, const struct rank_plan *plan)
{
    const struct model_memory *m = &plan->memory;

    printf(" > number of parameters on (tensor, pipeline) model parallel rank (%" PRId64
           ", %" PRId64 "): %" PRId64 "\n",
           at->tp, at->pp, plan->parameters);
    printf("   memory (GiB): weights %.3f, gradients %.3f, optimizer %.3f, activations %.3f, total "
           "%.3f",
           gib(m->weights), gib(m->gradients), gib(m->optimizer), gib(m->activations),
           gib(device_total(m)));
    if (plan->offloaded > 0)
        printf("; optimizer in host memory %.3f", gib(plan->offloaded));
    if (plan->sums > 0)
        printf("; MPI reduction buffer %.3f", gib(plan->sums));
    if (plan->copy > 0)
        printf("; checkpoint copy in host memory %.3f", gib(plan->copy));
    printf("\n");
}

/* Print one rank of each kind: each tensor-parallel rank of each pipeline stage. */
int plan_print_ranks(const struct arguments *a, struct error *err)
{
    for (int64_t pp = 0; pp < a->layout.pp; pp++)
        for (int64_t tp = 0; tp < a->layout.tp; tp++) {
            struct layout_position at = {.tp = tp, .pp = pp};
            struct rank_plan plan;

            if (plan_rank(a, &at, &plan, err) < 0)
                return -1;
            print_rank(&at, &plan);
        }
    return 0;
}

/* What of it a masked model's vocabulary takes: its table in weights, gradients and optimizer, and
 * the logits of the masked tokens. */
static void add_head(const struct arguments *a, struct error *lack)
{
    const struct model_config *m = &a->model_config;
    struct model_sizes z = model_sizes(m, &a->layout);
    /* Weights, gradients, two moments and, of 16-bit weights, a master copy. */
    size_t each = type_size(m->type) + (m->type == TYPE_FP32 ? 3 : 4) * sizeof(float);

    error_append(lack,
                 "; on the first and last stage the vocabulary of %" PRId64
                 " tokens takes %.2f GiB of it as a table, and %.2f GiB as the logits of up to "
                 "%" PRId64 " masked tokens (--max-masked-tokens)",
                 m->shape.vocabulary, gib((size_t)(z.vocabulary * z.hidden) * each),
                 gib((size_t)(z.head_rows * z.vocabulary) * type_size(m->type)), z.masked);
}

int plan_advise(const struct arguments *a, struct error *err)
{
    struct error lack = *err;
    int smaller = a->micro_batch_size > 1;
    int full = a->recompute_granularity == GRANULARITY_FULL;
    const char *recompute = a->skip_train                         ? ""
                            : !full                               ? "--recompute-granularity full, "
                            : a->recompute_method == METHOD_BLOCK ? "--recompute-method uniform, "
                                                                  : "";

    if (a->masked)
        add_head(a, &lack);
    return error_set(err,
                     "%s; use %s%s%smore model parallelism (--tensor-model-parallel-size, "
                     "--pipeline-model-parallel-size)",
                     lack.text, smaller ? "a smaller --micro-batch-size, " : "", recompute,
                     smaller || recompute[0] ? "or " : "");
}

int plan_print(const struct arguments *a, const struct world *world, struct device *device,
               const struct parallel *parallel, int speaks, struct error *err)
{
    struct device_memory there;
    struct rank_plan plan;
    struct model_memory m;
    size_t total;

    if (plan_rank(a, &parallel->at, &plan, err) < 0 || device_memory(device, &there, err) < 0)
        return -1;
    m = plan.memory;
    total = device_total(&m);
    /* CPU ranks share their node's memory, which also holds the checkpoint copies. */
    if (strcmp(device->name, "cpu") == 0) {
        there.available /= (size_t)world->local_size;
        total += plan.copy + plan.sums + plan.offloaded;
    }
    if (speaks) {
        arguments_print(a, stdout);
        plan_print_run(a);
        if (plan_print_ranks(a, err) < 0)
            return -1;
        if (a->device == DEVICE_AUTO && strcmp(device->name, "cpu") == 0)
            printf(" > this node has no NVIDIA GPU: computing on the CPU (--device cpu)\n");
        printf("device %s (%s): %.3f GiB available, %.3f GiB planned on this rank\n", device->name,
               device->model, gib(there.available), gib(total));
        fflush(stdout);
    }
    if (total <= there.available)
        return 0;
    error_set(err,
              "this rank needs %.2f GiB (weights %.2f, gradients %.2f, optimizer %.2f, activations "
              "%.2f, checkpoint copy and MPI buffer %.2f), but only %.2f GiB are available",
              gib(total), gib(m.weights), gib(m.gradients), gib(m.optimizer), gib(m.activations),
              gib(total - device_total(&m)), gib(there.available));
    return plan_advise(a, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_memory.h"
#include "configure.h"
#include "engine/device/cpu_workspace.h"
#include "lib/cpuset.h"
#include "engine/model/fp8_layers.h"
#include "base/core/gib.h"
#include "base/core/log.h"
#include "engine/parallel/ranks.h"
#include "train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of this many steps or more should save checkpoints. */
enum { LONG_RUN = 1000 };

static size_t device_total(const struct model_memory *m)
{
    return m->weights + m->gradients + m->optimizer + m->activations;
}

static size_t sums_of(const struct arguments *a, const struct parameters *p)
{
    int64_t most = 0;

    if (!arguments_on_cpus(a))
        return 0;
    for (int i = 0; i < p->bucket_count; i++) {
        int64_t others = p->buckets[i].size - bucket_shard(&p->buckets[i], 0).count;

        if (p->buckets[i].shards > 1 && others > most)
            most = others;
    }
    return sizeof(float) * (size_t)most;
}

/* This rank's shard, the scaling state of fp8, and the buffer of its file. */
static size_t copy_of(const struct arguments *a, const struct parameters *p)
{
    const struct model_config *m = &a->model_config;
    struct scaling_rules rules = fp8_rules(m);
    int64_t elements = (a->checkpoint.save_optimizer ? 3 : 1) * p->shard_elements;

    if (!a->checkpoint.save)
        return 0;
    if (m->numerics.fp8.format != FP8_NONE)
        elements += 2 * fp8_layers_kept(&rules);
    return sizeof(float) * (size_t)elements;
}

static size_t workspace_of(const struct arguments *a)
{
    const struct model_config *m = &a->model_config;
    int64_t threads = a->machine.threads > 0 ? a->machine.threads : cpuset_usable();

    if (!arguments_on_cpus(a))
        return 0;
    return fp8_cpu_workspace(m, &a->layout) +
           (m->numerics.gradient_type == TYPE_FP32 ? 0 : cpu_piece_bytes(threads));
}

/* The type of Muon's products: see muon_create. */
static enum device_type muon_type(const struct arguments *a)
{
    return arguments_on_cpus(a) || a->muon.fp32 ? TYPE_FP32 : TYPE_BF16;
}

int rank_memory_of(const struct arguments *a, const struct layout_position *at,
                   struct rank_memory *memory, struct error *err)
{
    struct engine_config engine = configure_engine(a);
    struct state_types types = optimizer_types(&engine.optimizer, a->model_config.numerics.type);
    struct parameters p;
    int slots;

    if (engine_slots(&engine, &a->layout, at->pp, &slots, err) < 0)
        return -1;
    model_plan_memory(&a->model_config, &a->layout, at, slots, &memory->device);
    parameters_create(&p, &a->model_config, &a->layout, at);
    memory->parameters = p.true_elements;
    optimizer_state_memory(p.shard_elements, &types, engine.optimizer.offload,
                           &memory->device.optimizer, &memory->offloaded);
    if (a->rules.optimizer == OPTIMIZER_MUON)
        memory->device.optimizer += muon_memory(&a->muon, &p, muon_type(a));
    memory->copy = copy_of(a, &p);
    memory->sums = sums_of(a, &p);
    memory->workspace = workspace_of(a);
    parameters_destroy(&p);
    return 0;
}

void rank_memory_print_run(const struct arguments *a)
{
    struct dataset_config data;
    const int64_t *samples = data.samples;
    int64_t world = a->layout.tp * a->layout.cp * a->layout.dp * a->layout.pp;
    char valid[24] = "all";

    configure_dataset(a, &data);
    if (samples[DATASET_VALID] >= 0)
        snprintf(valid, sizeof(valid), "%" PRId64, samples[DATASET_VALID]);
    printf("using world size: %" PRId64 ", data-parallel size: %" PRId64
           ", tensor-model-parallel size: %" PRId64 ", pipeline-model-parallel size: %" PRId64
           ", context-parallel size: %" PRId64 "\n",
           world, a->layout.dp, a->layout.tp, a->layout.pp, a->layout.cp);
    printf(" > padded vocab (size: %" PRId64 ") with %" PRId64 " dummy tokens (new size: %" PRId64
           ")\n",
           a->model.network.shape.vocabulary,
           a->model_config.padded_vocabulary - a->model.network.shape.vocabulary,
           a->model_config.padded_vocabulary);
    printf(" > datasets target sizes (minimum size):\n    train:      %" PRId64
           "\n    validation: %s\n    test:       %" PRId64 "\n",
           samples[DATASET_TRAIN], valid, samples[DATASET_TEST]);
    arguments_print_fp8(a, stdout);
    printf("setting training iterations to %" PRId64 "\n", a->total_iterations);
    if (a->checkpoint.save && a->checkpoint.save_interval <= 0 && a->total_iterations >= LONG_RUN &&
        !a->run.skip_train)
        log_note("without --save-interval, a checkpoint is saved only at the end; if the run is "
                 "killed, it starts from scratch; add --save-interval to avoid that");
}

static void print_rank(const struct layout_position *at, const struct rank_memory *memory)
{
    const struct model_memory *m = &memory->device;

    printf(" > number of parameters on (tensor, pipeline) model parallel rank (%" PRId64
           ", %" PRId64 "): %" PRId64 "\n",
           at->tp, at->pp, memory->parameters);
    printf("   memory (GiB): weights %.3f, gradients %.3f, optimizer %.3f, activations %.3f, total "
           "%.3f",
           gib(m->weights), gib(m->gradients), gib(m->optimizer), gib(m->activations),
           gib(device_total(m)));
    if (memory->offloaded > 0)
        printf("; optimizer in host memory %.3f", gib(memory->offloaded));
    if (memory->sums > 0)
        printf("; reduction buffer %.3f", gib(memory->sums));
    if (memory->workspace > 0)
        printf("; workspace for matrix products %.3f", gib(memory->workspace));
    if (memory->copy > 0)
        printf("; checkpoint copy in host memory %.3f", gib(memory->copy));
    printf("\n");
}

/* Print one rank of each kind: each tensor-parallel rank of each pipeline stage. */
int rank_memory_print_ranks(const struct arguments *a, struct error *err)
{
    for (int64_t pp = 0; pp < a->layout.pp; pp++)
        for (int64_t tp = 0; tp < a->layout.tp; tp++) {
            struct layout_position at = {.tp = tp, .pp = pp};
            struct rank_memory memory;

            if (rank_memory_of(a, &at, &memory, err) < 0)
                return -1;
            print_rank(&at, &memory);
        }
    return 0;
}

/* The share of a masked model's vocabulary: its table in weights, gradients and optimizer, and the
 * logits of the masked tokens. */
static void add_head(const struct arguments *a, struct error *lack)
{
    const struct model_config *m = &a->model_config;
    struct model_sizes z = model_sizes(m, &a->layout);
    const struct engine_config engine = configure_engine(a);
    struct state_types types = optimizer_types(&engine.optimizer, m->numerics.type);
    /* Weights, gradients, and what the optimizer keeps. */
    size_t each =
        type_size(m->numerics.type) + type_size(m->numerics.gradient_type) + state_bytes(&types);

    error_append(lack,
                 "; on the first and last stage the vocabulary of %" PRId64
                 " tokens takes %.2f GiB of it as a table, and %.2f GiB as the logits of up to "
                 "%" PRId64 " masked tokens (--max-masked-tokens)",
                 m->network.shape.vocabulary, gib((size_t)(z.vocabulary * z.hidden) * each),
                 gib((size_t)(z.head_rows * z.vocabulary) * type_size(m->numerics.type)), z.masked);
}

int rank_memory_advise(const struct arguments *a, struct error *err)
{
    int smaller = a->run.micro_batch_size > 1;
    int full = a->parallel.recompute_granularity == GRANULARITY_FULL;
    const char *recompute = a->run.skip_train ? ""
                            : !full           ? "--recompute-granularity full, "
                            : a->parallel.recompute_method == METHOD_BLOCK
                                ? "--recompute-method uniform, "
                                : "";

    if (a->model.network.masked)
        add_head(a, err);
    return error_append(err,
                        "; use %s%s%smore model parallelism (--tensor-model-parallel-size, "
                        "--pipeline-model-parallel-size)",
                        smaller ? "a smaller --micro-batch-size, " : "", recompute,
                        smaller || recompute[0] ? "or " : "");
}

int rank_memory_check(const struct arguments *a, const struct world *world, struct device *device,
                      const struct parallel *parallel, int speaks, struct error *err)
{
    struct device_memory there;
    struct rank_memory memory;
    struct model_memory m;
    size_t total;

    if (rank_memory_of(a, &parallel->at, &memory, err) < 0 ||
        device_memory(device, &there, err) < 0)
        return -1;
    m = memory.device;
    total = device_total(&m);
    /* CPU ranks share their node's memory, which also holds the checkpoint copies. */
    if (strcmp(device->name, "cpu") == 0) {
        there.available /= (size_t)world->local_size;
        total += memory.copy + memory.sums + memory.offloaded + memory.workspace;
    }
    if (speaks) {
        arguments_print_start(a, stdout);
        rank_memory_print_run(a);
        if (rank_memory_print_ranks(a, err) < 0)
            return -1;
        if (a->machine.device == DEVICE_AUTO && strcmp(device->name, "cpu") == 0)
            printf(" > this node has no NVIDIA GPU: computing on the CPU (--device cpu)\n");
        printf("device %s (%s): %.3f GiB available, %.3f GiB planned on this rank\n", device->name,
               device->model, gib(there.available), gib(total));
        fflush(stdout);
    }
    if (total <= there.available)
        return 0;
    error_set(err,
              "this rank needs %.2f GiB (weights %.2f, gradients %.2f, optimizer %.2f, activations "
              "%.2f, checkpoint copy, reduction buffer and workspace %.2f), but only %.2f GiB are "
              "available",
              gib(total), gib(m.weights), gib(m.gradients), gib(m.optimizer), gib(m.activations),
              gib(total - device_total(&m)), gib(there.available));
    return rank_memory_advise(a, err);
}

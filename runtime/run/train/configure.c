/* SPDX-License-Identifier: Apache-2.0 */
#include "configure.h"

#include <string.h>

/* Micro-batches per data-parallel rank in a global batch. */
static int64_t micros_of(const struct arguments *a, int64_t batch)
{
    return batch / (a->micro_batch_size * a->layout.dp);
}

struct engine_config configure_engine(const struct arguments *a)
{
    double fixed = a->loss_scale > 0 ? a->loss_scale : 1;
    struct step_rules rules = a->rules;

    /* The gradients of BERT's two losses cannot be divided by one number. */
    rules.per_token = a->per_token_loss && !(a->mlm.data.bert && a->binary_head);
    rules.weigh_tokens = rules.per_token && a->masked; /* as fairseq; Megatron does not */
    return (struct engine_config){
        .model = a->model_config,
        .optimizer = {.rules = rules,
                      .epsilon = a->epsilon,
                      .initial_scale = a->rules.dynamic_scale ? a->initial_loss_scale : fixed,
                      .decay_all = a->mlm.decay_all,
                      .tied = a->model_config.network.tied,
                      .offload = a->offload ? a->offload_fraction : 0,
                      .half = a->mlm.memory_efficient_fp16,
                      .moment1 = a->exp_avg_bf16 ? TYPE_BF16 : TYPE_FP32,
                      .moment2 = a->exp_avg_sq_bf16 ? TYPE_BF16 : TYPE_FP32,
                      .gather = a->model_config.numerics.fp8.gather,
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
    samples[DATASET_TRAIN] = a->skip_train ? 0 : a->total_samples;
    samples[DATASET_VALID] = a->full_validation ? -1 : a->eval_samples[0];
    samples[DATASET_TEST] = a->eval_samples[1];
}

void configure_dataset(const struct arguments *a, struct dataset_config *config)
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

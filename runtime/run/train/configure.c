/* SPDX-License-Identifier: Apache-2.0 */
#include "configure.h"

#include <string.h>

/* Micro-batches per data-parallel rank in a global batch. */
static int64_t micros_of(const struct arguments *a, int64_t batch)
{
    return batch / (a->run.micro_batch_size * a->layout.dp);
}

struct engine_config configure_engine(const struct arguments *a)
{
    double fixed = a->step.loss_scale > 0 ? a->step.loss_scale : 1;
    struct step_rules rules = a->rules;

    /* The gradients of BERT's two losses cannot be divided by one number. */
    rules.per_token = a->step.per_token_loss && !(a->mlm.data.bert && a->model.network.binary_head);
    rules.weigh_tokens =
        rules.per_token && a->model.network.masked; /* as in fairseq, unlike Megatron */
    return (struct engine_config){
        .model = a->model_config,
        .optimizer = {.rules = rules,
                      .epsilon = a->step.epsilon,
                      .initial_scale = a->rules.dynamic_scale ? a->step.initial_loss_scale : fixed,
                      .decay_all = a->mlm.decay_all,
                      .tied = a->model_config.network.tied,
                      .offload = a->step.offload ? a->step.offload_fraction : 0,
                      .half = a->mlm.memory_efficient_fp16,
                      .moment1 = a->precision.exp_avg_bf16 ? TYPE_BF16 : TYPE_FP32,
                      .moment2 = a->precision.exp_avg_sq_bf16 ? TYPE_BF16 : TYPE_FP32,
                      .gather = a->model_config.numerics.fp8.gather,
                      .muon = a->muon},
        .min_micros = micros_of(a, batch_size_at(a, 0)),
        .max_micros = micros_of(a, a->run.global_batch_size),
        .eval_micros = a->run.eval_iters > 0 ? micros_of(a, a->run.global_batch_size) : 0,
        /* Slightly longer than comm's own timeout, because comm can name the collective that hangs.
         */
        .deadline = 60.0 * a->parallel.timeout_minutes + 10,
        .one_by_one = a->output.profile,
    };
}

/* Requested samples of each split, as Megatron computes them. */
static void wanted_samples(const struct arguments *a, int64_t samples[DATASET_SPLITS])
{
    samples[DATASET_TRAIN] = a->run.skip_train ? 0 : a->total_samples;
    samples[DATASET_VALID] = a->run.full_validation ? -1 : a->eval_samples[0];
    samples[DATASET_TEST] = a->eval_samples[1];
}

void configure_dataset(const struct arguments *a, struct dataset_config *config)
{
    memset(config, 0, sizeof(*config));
    config->data_path = a->data.data_path;
    config->split_path[DATASET_TRAIN] = a->data.train_data_path;
    config->split_path[DATASET_VALID] = a->data.valid_data_path;
    config->split_path[DATASET_TEST] = a->data.test_data_path;
    config->split = a->data.split;
    config->mock = a->data.mock_data;
    wanted_samples(a, config->samples);
    config->sequence_length = a->model.network.shape.sequence;
    config->vocabulary = a->model.network.shape.vocabulary;
    config->eod = (int32_t)a->data.eod_id;
    config->seed = (uint32_t)a->run.seed;
    config->eod_mask_loss = a->data.eod_mask_loss;
    config->reset_position_ids = a->data.reset_position_ids;
    config->reset_attention_mask = a->data.reset_attention_mask;
    config->masked = a->model.network.masked ? &a->mlm.data : NULL;
    config->cache_path = a->data.data_cache_path;
    if (a->data.dataloader_type == DATALOADER_CYCLIC) {
        config->cyclic_ranks = a->layout.dp;
        config->cyclic_micro_batch = a->run.micro_batch_size;
    }
    config->deadline = 60.0 * a->parallel.timeout_minutes;
}

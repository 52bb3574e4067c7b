/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments_private.h"
#include "data_files.h"
#include "lib/file.h"
#include "base/core/json.h"
#include "base/core/layout_options.h"
#include "network.h"
#include "engine/parallel/ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void arguments_default(struct arguments *a)
{
    memset(a, 0, sizeof(*a));
    a->num_layers = a->hidden_size = a->ffn_hidden_size = a->num_attention_heads = -1;
    a->kv_channels = a->num_query_groups = a->seq_length = a->max_position_embeddings = -1;
    a->vocab_size = a->global_batch_size = a->train_iters = a->train_samples = -1;
    a->exit_interval = a->recompute_num_layers = -1;
    a->exit_duration = -1;
    a->save_interval = a->keep_last = a->ckpt_step = -1;
    a->save_optimizer = a->load_optimizer = a->load_rng = 1;
    a->lr_decay_iters = a->lr_decay_samples = a->lr_warmup_iters = a->lr_warmup_samples = -1;
    a->lr_wsd_decay_iters = a->lr_wsd_decay_samples = -1;
    a->start_weight_decay = a->end_weight_decay = a->decoupled_lr = a->decoupled_min_lr = -1;
    a->sgd_momentum = 0.9;
    a->offload_fraction = 1;
    a->overlap_offload = 1;
    arguments_default_muon(a);
    a->profile_start = a->profile_end = -1;
    a->virtual_stages = a->first_stage_layers = a->last_stage_layers = -1;
    a->layers_per_virtual_stage = a->eod_id = a->threads = a->world_size = -1;
    a->recompute_granularity = a->recompute_method = -1;
    a->lr_warmup_fraction = a->loss_scale = a->lr = -1;
    a->token_types = a->position_offset = a->masked_max = -1;
    a->make_vocab_size_divisible_by = 128;
    a->linear_bias = 1;
    a->rotary_base = 10000;
    a->rotary_percent = 1;
    a->rope_scaling_factor = 8;
    a->rotary_interpolation = 1;
    a->yarn_beta_fast = 32;
    a->yarn_beta_slow = 1;
    a->scaling = (struct rope_scaling){ROPE_PLAIN, 8, 1, 4, 8192, 0};
    a->init_method_std = 0.02;
    a->norm_epsilon = 1e-5;
    a->hidden_dropout = a->attention_dropout = 0.1;
    a->seed = 1234;
    a->weight_decay = 0.01;
    a->clip_grad = 1;
    a->beta1 = 0.9;
    a->beta2 = 0.999;
    a->epsilon = 1e-8;
    a->initial_loss_scale = 4294967296.0;
    a->min_loss_scale = 1;
    a->loss_scale_window = 1000;
    a->hysteresis = 2;
    a->timeout_minutes = 10;
    a->bucket_size = 40000000;
    a->eval_iters = 100;
    a->eval_interval = 1000;
    a->log_interval = 100;
    a->straggler_interval = 100;
    a->micro_batch_size = -1;
    arguments_recipe_default(a);
    arguments_fp8_default(a);
}

/* Options other than sizes. Without learned positions there is no dropout. */
static void apply_features(struct arguments *a, const struct options_result *given,
                           const struct model_shape *shape)
{
    unsigned has = shape->features;

    if (!options_given(given, "norm-epsilon") && !options_given(given, "layernorm-epsilon"))
        a->norm_epsilon = shape->epsilon;
    if (!options_given(given, "window-size"))
        a->blocks.window = shape->window;
    a->qkv_bias |= (has & PRESET_QKV_BIAS) != 0;
    a->blocks.qk_norm |= has & PRESET_QK_NORM ? QK_NORM_HEADS : QK_NORM_NONE;
    a->squared_relu |= (has & PRESET_SQUARED_RELU) != 0;
    a->swiglu |= (has & PRESET_SWIGLU) != 0;
    a->untie |= !(has & PRESET_TIED);
    if (!(has & PRESET_BIAS))
        a->linear_bias = 0;
    if (has & PRESET_RMS && !options_given(given, "normalization"))
        a->normalization = NORMALIZATION_RMS;
    if (!(has & PRESET_ROPE))
        return;
    if (!options_given(given, "rotary-base"))
        a->rotary_base = shape->rotary_base;
    if (has & PRESET_HALF_ROTARY && !options_given(given, "rotary-percent"))
        a->rotary_percent = 0.5;
    if (!options_given(given, "position-embedding-type"))
        a->position_embedding = POSITION_ROPE;
    if (!options_given(given, "hidden-dropout"))
        a->hidden_dropout = 0;
    if (!options_given(given, "attention-dropout"))
        a->attention_dropout = 0;
}

/* Take from the preset what the command line does not set. */
static int apply_preset(struct arguments *a, const struct options_result *given, struct error *err)
{
    const struct model_shape *shape;
    struct {
        int64_t *value, preset;
    } rows[9];
    int wider, headed;

    if (!a->model)
        return 0;
    shape = preset_find("--megatron-model", a->model, err);
    if (!shape)
        return -1;
    rows[0].value = &a->num_layers, rows[0].preset = shape->layers;
    rows[1].value = &a->hidden_size, rows[1].preset = shape->hidden;
    rows[2].value = &a->ffn_hidden_size, rows[2].preset = shape->ffn_hidden;
    rows[3].value = &a->num_attention_heads, rows[3].preset = shape->heads;
    rows[4].value = &a->kv_channels, rows[4].preset = shape->kv_channels;
    rows[5].value = &a->num_query_groups, rows[5].preset = shape->query_groups;
    rows[6].value = &a->seq_length, rows[6].preset = shape->sequence;
    rows[7].value = &a->max_position_embeddings, rows[7].preset = shape->sequence;
    rows[8].value = &a->vocab_size, rows[8].preset = shape->vocabulary;
    /* Sizes derived from others are derived again if those do not come from the preset. */
    wider = a->hidden_size >= 0 && a->hidden_size != shape->hidden;
    headed = a->num_attention_heads >= 0 && a->num_attention_heads != shape->heads;
    for (int i = 0; i < 9; i++) {
        int follows = (rows[i].value == &a->ffn_hidden_size && wider) ||
                      (rows[i].value == &a->kv_channels && (wider || headed));

        if (*rows[i].value < 0 && !follows)
            *rows[i].value = rows[i].preset;
    }
    a->group_query_attention |= shape->query_groups != shape->heads;
    if (arguments_masked_preset(a, given, shape))
        return 0;
    apply_features(a, given, shape);
    return 0;
}

static int need(int64_t value, const char *name, struct error *err)
{
    return value > 0
               ? 0
               : error_set(err, "--%s is required (or --megatron-model, which selects a preset)",
                           name);
}

/* Sizes derived from others. */
static int derive_shape(struct arguments *a, struct error *err)
{
    if (a->use_rotary)
        a->position_embedding = POSITION_ROPE;
    if (need(a->num_layers, "num-layers", err) < 0 ||
        need(a->hidden_size, "hidden-size", err) < 0 ||
        need(a->num_attention_heads, "num-attention-heads", err) < 0 ||
        need(a->seq_length, "seq-length", err) < 0)
        return -1;
    if (a->micro_batch_size < 0)
        return error_set(err,
                         "--micro-batch-size%s is required: the sequences that a rank processes at "
                         "a time%s",
                         a->mlm.recipe == RECIPE_FAIRSEQ ? " (or --max-sentences)" : "",
                         a->mlm.max_tokens > 0
                             ? "; memory is planned for it, --max-tokens alone is not enough"
                             : "");
    if (a->kv_channels < 0) {
        if (a->hidden_size % a->num_attention_heads != 0)
            return error_set(err,
                             "--hidden-size=%" PRId64
                             " is not a multiple of --num-attention-heads=%" PRId64
                             "; change one of them or set --kv-channels",
                             a->hidden_size, a->num_attention_heads);
        a->kv_channels = a->hidden_size / a->num_attention_heads;
    }
    if (a->ffn_hidden_size < 0)
        a->ffn_hidden_size = a->swiglu ? (int64_t)((double)(4 * a->hidden_size) * 2 / 3 / 64) * 64
                                       : 4 * a->hidden_size;
    if (!a->group_query_attention)
        a->num_query_groups = a->num_attention_heads;
    if (a->num_query_groups < 0)
        return error_set(err, "--group-query-attention needs --num-query-groups; add it");
    if (a->num_attention_heads % a->num_query_groups != 0)
        return error_set(err,
                         "--num-query-groups=%" PRId64
                         " does not divide --num-attention-heads=%" PRId64 "; change one of them",
                         a->num_query_groups, a->num_attention_heads);
    if (arguments_masked(a, err) < 0)
        return -1;
    if (a->max_position_embeddings < 0)
        a->max_position_embeddings = a->seq_length + a->position_offset;
    if (a->max_position_embeddings < a->seq_length + a->position_offset)
        return error_set(err,
                         "--seq-length=%" PRId64
                         " is greater than --max-position-embeddings=%" PRId64
                         "%s; lower --seq-length%s, or raise --max-position-embeddings",
                         a->seq_length, a->max_position_embeddings,
                         a->position_offset > 0 ? " less --position-offset" : "",
                         a->masked ? " (--tokens-per-sample)" : "");
    if (a->vocab_size < 0)
        return error_set(err, "--vocab-size is required, or --megatron-model, or a tokenizer "
                              "(--vocab-file and --merge-file, or --tokenizer-model)");
    return 0;
}

/* If a tokenizer is given, take the vocabulary size and the end-of-document token from it. */
static int ask_tokenizer(struct arguments *a, const struct options_result *given, struct error *err)
{
    static const char *const names[] = {"tokenizer-type", "tokenizer-model", "vocab-file",
                                        "merge-file"};
    struct tokenizer *tokenizer;
    int named = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        named |= options_given(given, names[i]);
    a->tokenizer_named = named;
    if (!named)
        return 0;
    a->tokenizer.vocab_size = a->vocab_size > 0 ? a->vocab_size : 0;
    tokenizer = tokenizer_create(&a->tokenizer, err);
    if (!tokenizer)
        return -1;
    a->tokenizer_size = tokenizer_vocab_size(tokenizer);
    tokenizer_identify(tokenizer, &a->tokenizer_identity);
    /* NullTokenizer adds the end of documents to the ids of --vocab-size. */
    if (!options_given(given, "vocab-size") || a->tokenizer.type == TOKENIZER_NULL)
        a->vocab_size = a->tokenizer_size;
    if (a->eod_id < 0)
        a->eod_id = tokenizer_eod(tokenizer);
    tokenizer_destroy(tokenizer);
    return 0;
}

/* Where the size of the vocabulary comes from. */
static const char *vocabulary_origin(const struct arguments *a, const struct options_result *given)
{
    if (!a->network_taken && a->tokenizer_named && a->tokenizer.type == TOKENIZER_NULL)
        return "--vocab-size plus the end-of-document token";
    return a->network_taken                     ? "the checkpoint"
           : options_given(given, "vocab-size") ? "--vocab-size"
           : a->tokenizer_named                 ? "the tokenizer"
                                                : "--megatron-model";
}

/* Every token of the tokenizer needs a row of the model's embedding. */
static int check_vocabulary(struct arguments *a, const struct options_result *given,
                            struct error *err)
{
    a->vocabulary_origin = vocabulary_origin(a, given);
    if (a->tokenizer_named && a->tokenizer_size > a->vocab_size &&
        a->tokenizer.type != TOKENIZER_NULL)
        return error_set(err,
                         "the tokenizer has %" PRId64
                         " tokens, but the vocabulary of the model (%s) has %" PRId64 "; %s",
                         a->tokenizer_size, a->vocabulary_origin, a->vocab_size,
                         a->network_taken ? "use the tokenizer that the model was trained with"
                                          : "drop --vocab-size to use that of the tokenizer");
    return 0;
}

/* Values that are invalid for any run. */
static int check_numbers(const struct arguments *a, const struct options_result *given,
                         struct error *err)
{
    double width = (double)a->hidden_size, heads = (double)a->num_attention_heads;
    double layer = width * (4 * heads * (double)a->kv_channels + 3 * (double)a->ffn_hidden_size);
    double parameters = (double)a->num_layers * layer +
                        width * (2 * (double)a->vocab_size + (double)a->max_position_embeddings);

    if (options_given(given, "lr") && a->lr < 0)
        return error_set(err, "--lr=%g must not be negative", a->lr);
    if (options_given(given, "lr") && a->min_lr > a->lr && !a->use_checkpoint_scheduler)
        return error_set(
            err,
            "--min-lr=%g is greater than --lr=%g: the learning rate would rise; lower --min-lr",
            a->min_lr, a->lr);
    if (a->min_lr < 0 || a->weight_decay < 0 || a->init_method_std < 0)
        return error_set(err,
                         "--min-lr=%g, --weight-decay=%g and --init-method-std=%g must not be "
                         "negative",
                         a->min_lr, a->weight_decay, a->init_method_std);
    if (a->epsilon <= 0)
        return error_set(err, "--adam-eps=%g must be greater than 0", a->epsilon);
    if (a->beta1 < 0 || a->beta1 >= 1 || a->beta2 < 0 || a->beta2 >= 1)
        return error_set(err,
                         "--adam-beta1=%g and --adam-beta2=%g must be at least 0 and less than 1",
                         a->beta1, a->beta2);
    if (a->clip_grad < 0)
        return error_set(err, "--clip-grad=%g must not be negative; 0 disables gradient clipping",
                         a->clip_grad);
    if (a->norm_epsilon < 0)
        return error_set(err, "--norm-epsilon=%g must not be negative", a->norm_epsilon);
    if (a->rotary_base <= 0)
        return error_set(err, "--rotary-base=%g must be greater than 0", a->rotary_base);
    if (parameters > 1e15)
        return error_set(err,
                         "this model would have %.1e parameters; check --num-layers, "
                         "--hidden-size, --ffn-hidden-size, --kv-channels and --vocab-size",
                         parameters);
    return 0;
}

int arguments_on_cpus(const struct arguments *a)
{
    if (a->dry_run)
        return a->device == DEVICE_CPU;
    return strcmp(ranks_device((enum device_choice)a->device), "cpu") == 0;
}

/* CPUs compute in fp32, with weights that are rounded to fp16. */
static int emulates(const struct arguments *a)
{
    return a->mlm.memory_efficient_fp16 && arguments_on_cpus(a);
}

/* On CPUs all other tensors are fp32. */
static int derive_gradient_type(struct arguments *a, struct error *err)
{
    a->gradients_bf16 |= a->main_gradients_bf16;
    if (!a->gradients_bf16)
        return 0;
    if (!a->bf16 && (a->fp16 || !arguments_on_cpus(a)))
        return error_set(err, "--grad-reduce-in-bf16 requires --bf16; add it, or drop this option");
    return 0;
}

static int derive_model(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;

    if (a->fp16 && a->bf16)
        return error_set(err, "--fp16 and --bf16 cannot be used together; drop one");
    if (derive_gradient_type(a, err) < 0)
        return -1;
    if (a->hidden_dropout < 0 || a->hidden_dropout >= 1 || a->attention_dropout < 0 ||
        a->attention_dropout >= 1)
        return error_set(
            err,
            "--hidden-dropout=%g and --attention-dropout=%g must be at least 0 and less than 1",
            a->hidden_dropout, a->attention_dropout);
    if (a->rotary_percent <= 0 || a->rotary_percent > 1)
        return error_set(err, "--rotary-percent=%g must be greater than 0 and at most 1",
                         a->rotary_percent);
    *m = (struct model_config){
        .network.shape = {.name = a->model ? a->model : "the model",
                          .layers = a->num_layers,
                          .hidden = a->hidden_size,
                          .ffn_hidden = a->ffn_hidden_size,
                          .heads = a->num_attention_heads,
                          .query_groups = a->num_query_groups,
                          .kv_channels = a->kv_channels,
                          .vocabulary = a->vocab_size,
                          .sequence = a->seq_length,
                          .rotary_base = a->rotary_base},
        .padded_vocabulary =
            vocabulary_padded(a->vocab_size, a->make_vocab_size_divisible_by, a->layout.tp),
        .network.positions = a->max_position_embeddings,
        .network.position = a->position_embedding == POSITION_YARN
                                ? POSITION_ROPE
                                : (enum position_kind)a->position_embedding,
        .network.rotary_percent = a->rotary_percent,
        .network.norm = a->normalization == NORMALIZATION_RMS ? NORM_RMS : NORM_LAYER,
        .network.epsilon = a->norm_epsilon,
        .network.swiglu = a->swiglu,
        .network.tied = !a->untie,
        .network.linear_bias = a->linear_bias,
        .network.qkv_bias = a->qkv_bias,
        .network.hidden_dropout = a->hidden_dropout,
        .network.attention_dropout = a->attention_dropout,
        .network.init_std = a->init_method_std,
        .numerics.type = a->bf16                   ? TYPE_BF16
                         : a->fp16 && !emulates(a) ? TYPE_FP16
                                                   : TYPE_FP32,
        .numerics.gradient_type = a->gradients_bf16 ? TYPE_BF16 : TYPE_FP32,
        .numerics.half = emulates(a),
        .micro_batch = a->micro_batch_size,
        .documents = a->reset_attention_mask,
        .network.masked = a->masked,
        .masked_max = a->masked_max,
        .network.post_norm = a->post_norm,
        .network.gelu_erf = a->gelu_erf,
        .network.token_types = a->token_types,
        .network.position_offset = a->position_offset,
        .network.binary_head = a->binary_head,
        .split.chunks = 1,
        .bucket_elements = a->bucket_size,
        .seed = (uint64_t)a->seed,
    };
    m->network.shape.family = network_family(&m->network);
    return arguments_blocks(a, m, err);
}

static int derive_recompute(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;

    if (a->recompute_activations && a->recompute_granularity < 0)
        a->recompute_granularity = GRANULARITY_SELECTIVE;
    if (a->recompute_granularity < 0)
        return 0;
    m->recompute =
        a->recompute_granularity == GRANULARITY_FULL ? RECOMPUTE_FULL : RECOMPUTE_SELECTIVE;
    m->recompute_layers = m->network.shape.layers;
    if (a->recompute_method == METHOD_BLOCK) {
        if (a->recompute_num_layers < 0)
            return error_set(err,
                             "--recompute-method block requires --recompute-num-layers; add it");
        m->recompute_layers = a->recompute_num_layers;
    }
    return 0;
}

static int derive_layout(struct arguments *a, const struct world *world, struct error *err)
{
    int64_t size = a->dry_run && a->world_size > 0 ? a->world_size : world->size, part;

    a->layout.tp = a->tp > 0 ? a->tp : world->tp > 0 ? world->tp : 1;
    a->layout.pp = a->pp > 0 ? a->pp : world->pp > 0 ? world->pp : 1;
    a->layout.cp = a->cp > 0 ? a->cp : world->cp > 0 ? world->cp : 1;
    /* layout_divide reports sizes that are too large. */
    if (a->dry_run && a->world_size < 0 && world->size == 1 &&
        !__builtin_mul_overflow(a->layout.tp, a->layout.pp, &part) &&
        !__builtin_mul_overflow(part, a->layout.cp, &part))
        size = part;
    if (layout_divide(&a->layout, size, &layout_options, err) < 0)
        return -1;
    a->tp = a->layout.tp;
    a->pp = a->layout.pp;
    a->cp = a->layout.cp;
    /* Always enabled here, whatever the options are; the printed arguments show the actual values.
     */
    a->sequence_parallel = a->layout.tp > 1;
    a->distributed_optimizer = a->overlap_grad_reduce = a->overlap_param_gather = 1;
    return 0;
}

static int check_layout(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;
    int64_t rows = m->micro_batch * (m->network.shape.sequence / a->layout.cp);

    if (arguments_pipeline(a, err) < 0)
        return -1;
    if (rows % a->layout.tp != 0)
        return error_set(err,
                         "--micro-batch-size x --seq-length / --context-parallel-size = %" PRId64
                         " is not a multiple of --tensor-model-parallel-size=%" PRId64
                         "; change one of them",
                         rows, a->layout.tp);
    return 0;
}

/* An evaluation needs weights, but none of the other training options. */
static int derive_evaluation(struct arguments *a, struct error *err)
{
    if (!a->skip_train)
        return 0;
    if (!a->load && !a->load_hf)
        return error_set(
            err,
            "evaluation requires --load or --load-hf, the weights to evaluate; add one of them");
    if (a->save || a->save_hf)
        return error_set(err, "evaluation does not save anything; drop --save and --save-hf");
    if (a->eval_iters == 0)
        return error_set(err, "evaluation requires --eval-iters of 1 or more; raise it");
    a->finetune = a->load != NULL;
    if (a->train_iters < 0 && a->train_samples < 0)
        a->train_iters = 1;
    a->lr = 0;
    a->lr_warmup_fraction = -1;
    a->lr_decay_style = LR_CONSTANT;
    a->lr_decay_iters = a->lr_decay_samples = a->lr_warmup_iters = a->lr_warmup_samples = -1;
    return 0;
}

/* Does the run have the data it needs? */
static int names_data(const struct arguments *a)
{
    return a->mock_data || a->data_path.count > 0 || a->train_data_path.count > 0 ||
           (a->skip_train && (a->valid_data_path.count > 0 || a->test_data_path.count > 0));
}

static int check_mock(const struct arguments *a, struct error *err)
{
    const struct {
        const char *option;
        size_t count;
    } paths[] = {
        {"--data-path", (size_t)a->data_path.count},
        {"--train-data-path", (size_t)a->train_data_path.count},
        {"--valid-data-path", (size_t)a->valid_data_path.count},
        {"--test-data-path", (size_t)a->test_data_path.count},
    };

    for (size_t i = 0; a->mock_data && i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i].count > 0)
            return error_set(err, "--mock-data and %s cannot be used together; drop one",
                             paths[i].option);
    return 0;
}

static int read_files(struct arguments *a, const struct options_result *given, struct error *err)
{
    a->reads_files = 1;
    errno = 0;
    if (data_files_read(a, err) < 0 || ask_tokenizer(a, given, err) < 0 ||
        network_from_weights(a, given, err) < 0 || check_vocabulary(a, given, err) < 0 ||
        arguments_recipe_files(a, given, err) < 0)
        return file_path_error(err);
    a->reads_files = 0;
    return 0;
}

static int check_profile(const struct arguments *a, struct error *err)
{
    if (!a->profile || a->profile_start < 0 || a->profile_end < 0 ||
        a->profile_end > a->profile_start)
        return 0;
    return error_set(err,
                     "--profile-step-end %" PRId64
                     " must be greater than --profile-step-start %" PRId64
                     ": it is the step after the profiled ones; raise it",
                     a->profile_end, a->profile_start);
}

/* With --device auto, the device may differ between nodes. */
static int check_device(struct arguments *a, struct error *err)
{
    if (!arguments_on_cpus(a) || (!a->bf16 && !a->fp16) || emulates(a))
        return 0;
    a->reads_files = a->device == DEVICE_AUTO;
    if (a->device == DEVICE_AUTO)
        return error_set(err,
                         "this node has no NVIDIA GPU, and the CPU backend supports fp32 only; "
                         "request a node with GPUs or drop --%s",
                         a->bf16 ? "bf16" : "fp16");
    return error_set(err, "the CPU backend supports fp32 only; drop --%s",
                     a->bf16 ? "bf16" : "fp16");
}

/* A build without JSON cannot read what it saves; reject it before the first step. */
static int check_json(const struct arguments *a, struct error *err)
{
    struct json *json = a->save || a->load ? json_read("{}", 2, NULL) : NULL;

    json_destroy(json);
    if (json || (!a->save && !a->load))
        return 0;
    return error_set(err,
                     "--%s: this build has no JSON support and cannot read checkpoints; install "
                     "libsimdjson-dev and rebuild",
                     a->load ? "load" : "save");
}

int arguments_derive(struct arguments *a, const struct options_result *given,
                     const struct world *world, struct error *err)
{
    if (a->load && a->load_hf)
        return error_set(err, "--load and --load-hf cannot be used together; drop one");
    if (a->load_hf && a->save_hf && file_is_same(a->load_hf, a->save_hf))
        return error_set(err,
                         "--save-hf=%s is the directory that --load-hf reads, whose weights are "
                         "not replaced; choose another directory",
                         a->save_hf);
    if (derive_evaluation(a, err) < 0 || check_json(a, err) < 0 ||
        arguments_recipe_begin(a, given, err) < 0 || arguments_block_words(a, given, err) < 0)
        return -1;
    if (!a->model && world->model)
        a->model = world->model;
    if (apply_preset(a, given, err) < 0 || read_files(a, given, err) < 0 ||
        derive_shape(a, err) < 0 || check_numbers(a, given, err) < 0 ||
        derive_layout(a, world, err) < 0 || derive_model(a, err) < 0 || check_layout(a, err) < 0 ||
        derive_recompute(a, err) < 0 || arguments_fp8(a, err) < 0 || arguments_length(a, err) < 0 ||
        arguments_schedule(a, err) < 0 || check_profile(a, err) < 0 ||
        arguments_recipe_end(a, given, err) < 0)
        return -1;
    if (a->model_config.split.chunks > 1 &&
        a->global_batch_size / (a->micro_batch_size * a->layout.dp) % a->layout.pp != 0)
        return error_set(err,
                         "the interleaved pipeline schedule requires the number of micro-batches "
                         "to be a multiple of --pipeline-model-parallel-size=%" PRId64
                         "; change --global-batch-size",
                         a->layout.pp);
    if (options_given(given, "loss-scale") && a->loss_scale < 0)
        return error_set(err, "--loss-scale=%g must not be negative; 0 makes it dynamic",
                         a->loss_scale);
    if (a->min_loss_scale <= 0 || a->initial_loss_scale < a->min_loss_scale)
        return error_set(err,
                         "--min-loss-scale=%g must be greater than 0 and at most "
                         "--initial-loss-scale=%g; change one of them",
                         a->min_loss_scale, a->initial_loss_scale);
    if (a->timeout_minutes <= 0)
        return error_set(err, "--distributed-timeout-minutes=%g must be greater than 0",
                         a->timeout_minutes);
    if (options_given(given, "exit-duration-in-mins") && a->exit_duration <= 0)
        return error_set(err, "--exit-duration-in-mins=%g must be greater than 0",
                         a->exit_duration);
    if (a->save_interval > 0 && !a->save)
        return error_set(
            err, "--save-interval requires --save, the directory to save checkpoints in; add it");
    if (a->finetune && !a->load)
        return error_set(err, "--finetune requires --load, the checkpoint to start from; add it");
    if (a->wandb_project && !a->wandb_name)
        return error_set(err,
                         "--wandb-project requires --wandb-exp-name, the name of the run; add it");
    if (check_mock(a, err) < 0)
        return -1;
    if (check_device(a, err) < 0)
        return -1;
    if (a->eod_id < 0)
        a->eod_id = a->vocab_size - 1;
    if (options_given(given, "eod-id") && !a->masked && a->eod_id >= a->vocab_size)
        return error_set(err,
                         "--eod-id=%" PRId64 " is not in the vocabulary (0 to %" PRId64
                         "), so no document would end; change it",
                         a->eod_id, a->vocab_size - 1);
    if (!names_data(a) && !a->dry_run)
        return error_set(err, "no data: use --data-path, --%s-data-path or --mock-data",
                         a->skip_train ? "valid" : "train");
    return 0;
}

double sample_flops(const struct arguments *a)
{
    const struct model_shape *s = &a->model_config.network.shape;
    double h = (double)s->hidden, d = (double)s->kv_channels, tokens = (double)s->sequence;
    double q = (double)s->heads * d, kv = (double)s->query_groups * d, f = (double)s->ffn_hidden;
    double layer = h * (q + 2 * kv) + q * h + (a->swiglu ? 3 : 2) * h * f;
    /* The head of a masked model computes some of the tokens only. */
    double predicted = a->masked ? (double)a->masked_max / tokens : 1;

    return 6 * tokens *
               ((double)s->layers * layer +
                predicted * h * (double)a->model_config.padded_vocabulary) +
           12 * tokens * (double)s->layers * q * tokens;
}

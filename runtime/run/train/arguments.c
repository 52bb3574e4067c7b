/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments_private.h"
#include "arguments.h"
#include "base/core/storage.h"
#include "base/core/json.h"
#include "base/core/log.h"
#include "base/core/layout_options.h"
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
    network_default(&a->model.network);
    options_default(arguments_table, a);
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
    a->data.tokenizer.vocab_size =
        a->model.network.shape.vocabulary > 0 ? a->model.network.shape.vocabulary : 0;
    tokenizer = tokenizer_create(&a->data.tokenizer, err);
    if (!tokenizer)
        return -1;
    a->tokenizer_size = tokenizer_vocab_size(tokenizer);
    tokenizer_identify(tokenizer, &a->tokenizer_identity);
    /* NullTokenizer adds the end-of-document token to the ids of --vocab-size. */
    if (!options_given(given, "vocab-size") || a->data.tokenizer.type == TOKENIZER_NULL)
        a->model.network.shape.vocabulary = a->tokenizer_size;
    if (a->data.eod_id < 0)
        a->data.eod_id = tokenizer_eod(tokenizer);
    tokenizer_destroy(tokenizer);
    return 0;
}

/* Where the size of the vocabulary comes from. */
static const char *vocabulary_origin(const struct arguments *a, const struct options_result *given)
{
    if (!a->network_taken && a->tokenizer_named && a->data.tokenizer.type == TOKENIZER_NULL)
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
    if (a->tokenizer_named && a->tokenizer_size > a->model.network.shape.vocabulary &&
        a->data.tokenizer.type != TOKENIZER_NULL)
        return error_set(err,
                         "the tokenizer has %" PRId64
                         " tokens, but the vocabulary of the model (%s) has %" PRId64 "; %s",
                         a->tokenizer_size, a->vocabulary_origin, a->model.network.shape.vocabulary,
                         a->network_taken ? "use the tokenizer that the model was trained with"
                                          : "drop --vocab-size to use that of the tokenizer");
    return 0;
}

/* Values that are invalid for any run. */
static int check_numbers(const struct arguments *a, const struct options_result *given,
                         struct error *err)
{
    double width = (double)a->model.network.shape.hidden,
           heads = (double)a->model.network.shape.heads;
    double layer = width * (4 * heads * (double)a->model.network.shape.kv_channels +
                            3 * (double)a->model.network.shape.ffn_hidden);
    double parameters = (double)a->model.network.shape.layers * layer +
                        width * (2 * (double)a->model.network.shape.vocabulary +
                                 (double)a->model.network.positions);

    if (options_given(given, "lr") && a->rules.min_lr > a->rules.lr &&
        !a->checkpoint.use_checkpoint_scheduler)
        return error_set(
            err,
            "--min-lr=%g is greater than --lr=%g: the learning rate would rise; lower --min-lr",
            a->rules.min_lr, a->rules.lr);
    if (parameters > 1e15)
        return error_set(err,
                         "this model would have %.1e parameters; check --num-layers, "
                         "--hidden-size, --ffn-hidden-size, --kv-channels and --vocab-size",
                         parameters);
    return 0;
}

int arguments_on_cpus(const struct arguments *a)
{
    if (a->output.dry_run)
        return a->machine.device == DEVICE_CPU;
    return strcmp(ranks_device((enum device_choice)a->machine.device), "cpu") == 0;
}

/* CPUs compute in fp32, with weights that are rounded to fp16. */
static int emulates(const struct arguments *a)
{
    return a->mlm.memory_efficient_fp16 && arguments_on_cpus(a);
}

/* On CPUs all other tensors are fp32. */
static int derive_gradient_type(struct arguments *a, struct error *err)
{
    a->precision.gradients_bf16 |= a->precision.main_gradients_bf16;
    if (!a->precision.gradients_bf16)
        return 0;
    if (!a->precision.bf16 && (a->precision.fp16 || !arguments_on_cpus(a)))
        return error_set(err, "--grad-reduce-in-bf16 requires --bf16; add it, or drop this option");
    return 0;
}

static int derive_model(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;

    if (derive_gradient_type(a, err) < 0)
        return -1;
    if (arguments_network(&a->model, &a->layout, err) < 0)
        return -1;
    *m = (struct model_config){
        .network = a->model.network,
        .padded_vocabulary = vocabulary_padded(a->model.network.shape.vocabulary,
                                               a->model.vocabulary_divisor, a->layout.tp),
        .numerics.type = a->precision.bf16                   ? TYPE_BF16
                         : a->precision.fp16 && !emulates(a) ? TYPE_FP16
                                                             : TYPE_FP32,
        .numerics.gradient_type = a->precision.gradients_bf16 ? TYPE_BF16 : TYPE_FP32,
        .numerics.half = emulates(a),
        .micro_batch = a->run.micro_batch_size,
        .documents = a->data.reset_attention_mask,
        .masked_max = a->model.masked_max,
        .split.chunks = 1,
        .bucket_elements = a->parallel.bucket_size,
        .seed = (uint64_t)a->run.seed,
    };
    return 0;
}

static int derive_recompute(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;

    if (a->parallel.recompute_activations && a->parallel.recompute_granularity < 0)
        a->parallel.recompute_granularity = GRANULARITY_SELECTIVE;
    if (a->parallel.recompute_granularity < 0)
        return 0;
    m->recompute = a->parallel.recompute_granularity == GRANULARITY_FULL ? RECOMPUTE_FULL
                                                                         : RECOMPUTE_SELECTIVE;
    m->recompute_layers = m->network.shape.layers;
    if (a->parallel.recompute_method == METHOD_BLOCK) {
        if (a->parallel.recompute_num_layers < 0)
            return error_set(err,
                             "--recompute-method block requires --recompute-num-layers; add it");
        m->recompute_layers = a->parallel.recompute_num_layers;
    }
    return 0;
}

static int derive_layout(struct arguments *a, const struct world *world, struct error *err)
{
    int64_t size = a->output.dry_run && a->machine.world_size > 0 ? a->machine.world_size
                                                                  : world->size,
            part;

    a->layout.tp = a->parallel.tp > 0 ? a->parallel.tp : world->tp > 0 ? world->tp : 1;
    a->layout.pp = a->parallel.pp > 0 ? a->parallel.pp : world->pp > 0 ? world->pp : 1;
    a->layout.cp = a->parallel.cp > 0 ? a->parallel.cp : world->cp > 0 ? world->cp : 1;
    /* layout_divide reports sizes that are too large. */
    if (a->output.dry_run && a->machine.world_size < 0 && world->size == 1 &&
        !__builtin_mul_overflow(a->layout.tp, a->layout.pp, &part) &&
        !__builtin_mul_overflow(part, a->layout.cp, &part))
        size = part;
    if (layout_divide(&a->layout, size, &layout_options, err) < 0)
        return -1;
    a->parallel.tp = a->layout.tp;
    a->parallel.pp = a->layout.pp;
    a->parallel.cp = a->layout.cp;
    /* Always enabled here, whatever the options are; the printed arguments show the actual values.
     */
    a->parallel.sequence_parallel = a->layout.tp > 1;
    a->parallel.distributed_optimizer = a->parallel.overlap_grad_reduce =
        a->parallel.overlap_param_gather = 1;
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
    if (!a->run.skip_train)
        return 0;
    if (!a->checkpoint.load && !a->checkpoint.load_hf)
        return error_set(
            err,
            "evaluation requires --load or --load-hf, the weights to evaluate; add one of them");
    if (a->checkpoint.save || a->checkpoint.save_hf)
        return error_set(err, "evaluation does not save anything; drop --save and --save-hf");
    if (a->run.eval_iters == 0)
        return error_set(err, "evaluation requires --eval-iters of 1 or more; raise it");
    a->checkpoint.finetune = a->checkpoint.load != NULL;
    if (a->run.train_iters < 0 && a->run.train_samples < 0)
        a->run.train_iters = 1;
    a->rules.lr = 0;
    a->step.lr_warmup_fraction = -1;
    a->rules.style = LR_CONSTANT;
    a->step.lr_decay_iters = a->step.lr_decay_samples = a->step.lr_warmup_iters =
        a->step.lr_warmup_samples = -1;
    return 0;
}

/* Does the run have the data it needs? */
static int names_data(const struct arguments *a)
{
    return a->data.mock_data || a->data.data_path.count > 0 || a->data.train_data_path.count > 0 ||
           (a->run.skip_train &&
            (a->data.valid_data_path.count > 0 || a->data.test_data_path.count > 0));
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
    if (!a->output.profile || a->output.profile_start < 0 || a->output.profile_end < 0 ||
        a->output.profile_end > a->output.profile_start)
        return 0;
    return error_set(err,
                     "--profile-step-end %" PRId64
                     " must be greater than --profile-step-start %" PRId64
                     ": it is the step after the profiled ones; raise it",
                     a->output.profile_end, a->output.profile_start);
}

/* With --device auto, the device may differ between nodes. */
static int check_device(struct arguments *a, struct error *err)
{
    if (!arguments_on_cpus(a) || (!a->precision.bf16 && !a->precision.fp16) || emulates(a))
        return 0;
    a->reads_files = a->machine.device == DEVICE_AUTO;
    if (a->machine.device == DEVICE_AUTO)
        return error_set(err,
                         "this node has no NVIDIA GPU, and the CPU backend supports fp32 only; "
                         "request a node with GPUs or drop --%s",
                         a->precision.bf16 ? "bf16" : "fp16");
    return error_set(err, "the CPU backend supports fp32 only; drop --%s",
                     a->precision.bf16 ? "bf16" : "fp16");
}

/* A build without JSON cannot read what it saves; reject it before the first step. */
static int check_json(const struct arguments *a, struct error *err)
{
    struct json *json = a->checkpoint.save || a->checkpoint.load ? json_read("{}", 2, NULL) : NULL;

    json_destroy(json);
    if (json || (!a->checkpoint.save && !a->checkpoint.load))
        return 0;
    return error_set(err,
                     "--%s: this build has no JSON support and cannot read checkpoints; install "
                     "libsimdjson-dev and rebuild",
                     a->checkpoint.load ? "load" : "save");
}

int arguments_derive(struct arguments *a, const struct options_result *given,
                     const struct world *world, struct error *err)
{
    if (a->checkpoint.load_hf && a->checkpoint.save_hf &&
        file_is_same(a->checkpoint.load_hf, a->checkpoint.save_hf))
        return error_set(err,
                         "--save-hf=%s is the directory that --load-hf reads, whose weights are "
                         "not replaced; choose another directory",
                         a->checkpoint.save_hf);
    if (derive_evaluation(a, err) < 0 || check_json(a, err) < 0 ||
        arguments_recipe_begin(a, given, err) < 0)
        return -1;
    if (!a->model.preset && world->model)
        a->model.preset = world->model;
    if (arguments_network_preset(a, given, err) < 0 ||
        arguments_network_words(&a->model, err) < 0 || read_files(a, given, err) < 0 ||
        options_check(given, a, err) < 0 || arguments_network_sizes(a, err) < 0 ||
        check_numbers(a, given, err) < 0 || derive_layout(a, world, err) < 0 ||
        derive_model(a, err) < 0 || check_layout(a, err) < 0 || derive_recompute(a, err) < 0 ||
        arguments_fp8(a, err) < 0 || arguments_length(a, err) < 0 ||
        arguments_schedule(a, err) < 0 || check_profile(a, err) < 0 ||
        arguments_recipe_end(a, given, err) < 0)
        return -1;
    if (a->model_config.split.chunks > 1 &&
        a->run.global_batch_size / (a->run.micro_batch_size * a->layout.dp) % a->layout.pp != 0)
        return error_set(err,
                         "the interleaved pipeline schedule requires the number of micro-batches "
                         "to be a multiple of --pipeline-model-parallel-size=%" PRId64
                         "; change --global-batch-size",
                         a->layout.pp);
    if (a->step.initial_loss_scale < a->rules.min_scale)
        return error_set(err,
                         "--min-loss-scale=%g must be at most --initial-loss-scale=%g; change one "
                         "of them",
                         a->rules.min_scale, a->step.initial_loss_scale);
    if (check_device(a, err) < 0)
        return -1;
    if (a->data.eod_id < 0)
        a->data.eod_id = a->model.network.shape.vocabulary - 1;
    if (options_given(given, "eod-id") && !a->model.network.masked &&
        a->data.eod_id >= a->model.network.shape.vocabulary)
        return error_set(err,
                         "--eod-id=%" PRId64 " is not in the vocabulary (0 to %" PRId64
                         "), so no document would end; change it",
                         a->data.eod_id, a->model.network.shape.vocabulary - 1);
    if (!names_data(a) && !a->output.dry_run)
        return error_set(err, "no data: use --data-path, --%s-data-path or --mock-data",
                         a->run.skip_train ? "valid" : "train");
    return 0;
}

void arguments_warn(const struct arguments *a, const struct options_result *given)
{
    /* A step lowers the running average of squared gradients by 1 - beta2 at most. In bf16 rounding
     * undoes changes below half the distance between two neighboring numbers, 0.2 to 0.4 %. After
     * steady gradients the average is 0.96 of what it should be with 0.95, 0.81 with 0.99, 0.61
     * with 0.995, a quarter with 0.999; after they fall to a tenth 1.06, 1.6, 3.4 and 25 times
     * that. */
    static const double most_beta2 = 0.99;

    options_note(given, a);
    if (a->precision.exp_avg_sq_bf16 && a->rules.beta2 > most_beta2)
        log_warning("with --exp-avg-sq-dtype bf16 and --adam-beta2 %g the average of squared "
                    "gradients cannot follow them, since rounding undoes small changes; use "
                    "--adam-beta2 0.99 or less, or keep it in fp32",
                    a->rules.beta2);
    if (a->checkpoint.use_checkpoint_scheduler && !a->run.skip_train &&
        (a->checkpoint.finetune || !a->checkpoint.load_optimizer))
        log_warning("--use-checkpoint-opt_param-scheduler has no effect with --%s, which starts a "
                    "new schedule; drop one",
                    a->checkpoint.finetune ? "finetune" : "no-load-optim");
    if (a->model.rotary_interleaved && a->model.position == POSITION_ROPE)
        log_note("--rotary-interleaved has no effect on training here: it is another order of the "
                 "channels of each head, which `megatron checkpoint import` and `export` convert");
}

double sample_flops(const struct arguments *a)
{
    const struct model_shape *s = &a->model_config.network.shape;
    double h = (double)s->hidden, d = (double)s->kv_channels, tokens = (double)s->sequence;
    double q = (double)s->heads * d, kv = (double)s->query_groups * d, f = (double)s->ffn_hidden;
    double layer = h * (q + 2 * kv) + q * h + (a->model.network.swiglu ? 3 : 2) * h * f;
    /* The head of a masked model computes only some of the tokens. */
    double predicted = a->model.network.masked ? (double)a->model.masked_max / tokens : 1;

    return 6 * tokens *
               ((double)s->layers * layer +
                predicted * h * (double)a->model_config.padded_vocabulary) +
           12 * tokens * (double)s->layers * q * tokens;
}

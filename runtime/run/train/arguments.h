/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `megatron train`, and everything derived from it. */
#ifndef MEGATRON_ARGUMENTS_H
#define MEGATRON_ARGUMENTS_H

#include "engine/schedule/engine.h"
#include "data/dataset/masked.h"
#include "base/core/option.h"
#include "data/tokenizer/tokenizer.h"
#include "base/core/world.h"

/* --recipe, --log-format, --masking */
enum recipe { RECIPE_MEGATRON, RECIPE_FAIRSEQ };
enum log_format { LOG_MEGATRON, LOG_JSON };

/* --masked-data */
enum masked_data { MASKED_AUTO, MASKED_FAIRSEQ, MASKED_BERT };

/* Options of masked language models, with fairseq's names, and values derived from them. */
struct recipe_arguments {
    int data_kind; /* enum masked_data */
    int recipe, log_format, whole_words, frequency;
    int decay_all, memory_efficient_fp16;
    int64_t max_tokens, update_freq, mask_id;
    const char *betas;
    /* set by arguments_recipe */
    char dict[4096];           /* dict.txt next to the data; "" if a tokenizer was given */
    struct masked_config data; /* partly set by options themselves */
};

/* Options of fp8; enum fp8_format and others are derived from them. */
struct fp8_arguments {
    int format, recipe, algorithm; /* indices of the words of their options */
    int wgrad, param_gather, first_last, bf16_fc2_input;
    int64_t margin, history, start_layers, end_layers;
};

enum recompute_granularity { GRANULARITY_FULL, GRANULARITY_SELECTIVE };
enum dataloader_type { DATALOADER_SINGLE, DATALOADER_CYCLIC };
enum recompute_method { METHOD_UNIFORM, METHOD_BLOCK };
enum attention_backend {
    ATTENTION_AUTO,
    ATTENTION_FLASH,
    ATTENTION_FUSED,
    ATTENTION_UNFUSED,
    ATTENTION_LOCAL
};

/* After the words of enum position_kind. */
enum { POSITION_YARN = POSITION_NONE + 1 };

/* The options of the MLP; swiglu and gate of struct network are derived from them. */
enum mlp_option { MLP_PLAIN, MLP_SWIGLU, MLP_GEGLU, MLP_QUICK_GEGLU };

/* The network, and options that decide several of its properties together. */
struct network_arguments {
    struct network network; /* sizes: -1 if they are not known yet */
    const char *preset;     /* --megatron-model */
    int group_query_attention;
    int position; /* index of a word of --position-embedding-type */
    int use_rotary, rotary_interleaved, rope_scaling;
    double rope_scaling_factor, rotary_interpolation;
    double yarn_factor, yarn_original, yarn_beta_fast, yarn_beta_slow;
    int gate; /* enum mlp_option */
    int openai_gelu;
    const char *window_size;
    int64_t vocabulary_divisor, masked_max;
};

/* How long a run is, and its batches. */
struct run_arguments {
    int64_t micro_batch_size, global_batch_size, train_iters, train_samples, seed;
    struct option_list rampup;
    int64_t exit_interval;
    double exit_duration; /* minutes */
    int exit_signal_handler, skip_train;
    int64_t eval_iters, eval_interval;
    int full_validation;
};

/* The optimizer, its schedule and the loss scale. */
struct step_arguments {
    double lr_warmup_fraction, decoupled_lr, decoupled_min_lr;
    int lr_wsd_decay_style;
    int64_t lr_wsd_decay_iters, lr_wsd_decay_samples;
    int64_t lr_decay_iters, lr_decay_samples, lr_warmup_iters, lr_warmup_samples;
    double weight_decay, start_weight_decay, end_weight_decay;
    double beta1, epsilon;
    int optimizer;
    double sgd_momentum, offload_fraction;
    int offload, overlap_offload;
    struct {
        int coefficients, tp_mode, precision, scalar_optimizer;
        int64_t steps;
    } muon_options;
    double loss_scale, initial_loss_scale;
    int64_t hysteresis;
    int per_token_loss;
};

struct precision_arguments {
    int fp16, bf16, gradients_bf16;
    int main_gradients_bf16; /* --main-grads-dtype: implies gradients_bf16 */
    int precision_aware, exp_avg_bf16, exp_avg_sq_bf16; /* the moments of Adam */
    int main_params; /* the type of master weights: there is only one */
    struct fp8_arguments fp8;
};

/* How a step is divided among ranks, and which activations it keeps. */
struct parallel_arguments {
    int64_t tp, pp, cp, layers_per_virtual_stage, virtual_stages;
    int64_t first_stage_layers, last_stage_layers;
    int account_for_embedding, account_for_loss;
    int sequence_parallel, distributed_optimizer, overlap_grad_reduce, overlap_param_gather;
    double timeout_minutes;
    int64_t bucket_size;
    int recompute_activations, recompute_granularity, recompute_method;
    int64_t recompute_num_layers;
};

struct data_arguments {
    struct option_list data_path, train_data_path, valid_data_path, test_data_path;
    const char *split, *data_cache_path, *data_args_path, *per_split_data_args_path;
    int lists_owned; /* the words of the lists were read from files */
    int mock_data, reset_position_ids, reset_attention_mask, eod_mask_loss;
    int64_t eod_id;
    int dataloader_type;
    struct tokenizer_config tokenizer;
};

struct checkpoint_arguments {
    const char *load_hf, *save_hf; /* Hugging Face weights */
    const char *save, *load;
    int64_t save_interval, keep_last, ckpt_step;
    int save_optimizer, load_optimizer, load_rng, finetune, async_save;
    int override_scheduler, use_checkpoint_scheduler;
    int exit_on_missing, use_checkpoint_args;
};

struct output_arguments {
    int64_t log_interval;
    int64_t straggler_interval; /* 0: ranks are not compared */
    int log_throughput, log_params_norm, log_validation_ppl, log_world_size, log_memory;
    const char *tensorboard_dir, *metrics_file;
    const char *wandb_project, *wandb_name, *wandb_entity, *wandb_dir;
    int profile;
    int64_t profile_start, profile_end; /* steps; -1: all after the first */
    int dry_run, verbose;
};

struct machine_arguments {
    int device, attention_backend;
    int64_t threads, world_size;
    int deterministic, nccl_ub, random_order;
};

/* The values of the options, named like the options; -1 (or another negative number, or NULL) means
 * not given. */
struct arguments {
    struct network_arguments model;
    struct run_arguments run;
    struct step_arguments step;
    struct precision_arguments precision;
    struct parallel_arguments parallel;
    struct data_arguments data;
    struct recipe_arguments mlm;
    struct checkpoint_arguments checkpoint;
    struct output_arguments output;
    struct machine_arguments machine;

    /* Set by arguments_derive. */
    int tokenizer_named;                          /* a tokenizer option was given */
    int64_t tokenizer_size;                       /* number of its tokens */
    struct tokenizer_identity tokenizer_identity; /* if it was named; else type "" */
    int network_taken;             /* the network is that of the checkpoint or of the HF weights */
    const char *vocabulary_origin; /* where the vocabulary size comes from, for messages */
    int reads_files; /* the error is about files or devices of this node, not about the options */
    struct model_config model_config;
    struct layout layout;
    struct muon_config muon; /* partly set by options themselves */
    int64_t virtual_chunks;
    int64_t total_iterations, total_samples;
    int64_t eval_samples[2]; /* validation and test samples, counted as Megatron does */
    struct step_rules rules; /* partly set by options themselves */
};

extern const struct option arguments_table[];

/* Set the defaults, before the options are parsed. */
void arguments_default(struct arguments *arguments);

/* Check the values against each other and derive model, layout and schedules. 'given' tells which
 * options are on the command line, 'world' comes from the environment. Returns 0 or -1. */
int arguments_derive(struct arguments *arguments, const struct options_result *given,
                     const struct world *world, struct error *err);

/* Warn about options that are valid but have no effect, or an unexpected one. */
void arguments_warn(const struct arguments *arguments, const struct options_result *given);

/* Does the run train on CPUs? A dry run is for GPUs, which this node may not have, unless --device
 * is cpu. */
int arguments_on_cpus(const struct arguments *arguments);

/* Print all values as Megatron does at startup. */
void arguments_print(const struct arguments *arguments, FILE *stream);

/* Print them at the start of a run. If `megatron supervise` starts it again, print only the lines
 * that differ from the first start. */
void arguments_print_start(const struct arguments *arguments, FILE *stream);

/* Print the value of one option: a space, the value, the end of the line. */
void arguments_print_value(const struct arguments *arguments, const struct option *row,
                           FILE *stream);

/* Print what is computed in fp8, one line each; nothing without --fp8-format. */
void arguments_print_fp8(const struct arguments *arguments, FILE *stream);

/* Global batch size of the step after 'consumed' samples. */
int64_t batch_size_at(const struct arguments *arguments, int64_t consumed);

/* Number of steps from 'consumed' samples to the end of --train-samples. */
int64_t steps_left(const struct arguments *arguments, int64_t consumed);

/* Floating-point operations of one sample, forward and backward. */
double sample_flops(const struct arguments *arguments);

/* Read the files that the options name into the lists of --data-path and --*-data-path. Returns 0,
 * or -1. The words belong to 'arguments'; data_files_clear frees them. */
int data_files_read(struct arguments *arguments, struct error *err);
void data_files_clear(struct arguments *arguments);

/* Fill in the model options from the weights of --load-hf or, in an evaluation, --load; otherwise
 * do nothing. Options on the command line may repeat the same values; if one differs, return -1
 * with both values. A Hugging Face directory given as --load is moved to --load-hf. */
int network_from_weights(struct arguments *arguments, const struct options_result *given,
                         struct error *err);

/* Compare the options and the seed in use with the record in --load, if there is one, and warn
 * about what differs; then write the record to --save. Training does not need it: a failure is only
 * a warning. One rank calls it when the run is sure to start: one that is refused must not change
 * the record.
 */
void data_record_keep(const struct arguments *arguments, uint64_t seed);

#endif

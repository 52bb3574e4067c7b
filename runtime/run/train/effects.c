/* SPDX-License-Identifier: Apache-2.0 */
#include "effects.h"
#include "base/core/log.h"

#include <string.h>

/* A step lowers the running average of squared gradients by 1 - beta2 at most. In bf16 rounding
 * undoes changes below half the distance between two neighboring numbers, 0.2 to 0.4 %. After
 * steady gradients the average is 0.96 of what it should be with 0.95, 0.81 with 0.99, 0.61 with
 * 0.995, a quarter with 0.999; after they fall to a tenth 1.06, 1.6, 3.4 and 25 times that. */
static const double MOST_BETA2 = 0.99;

/* 'option' needs one of the options in 'needs', separated by '|'. */
static const struct {
    const char *option, *needs;
} rows[] = {
    {"ckpt-step", "load"},
    {"exit-on-missing-checkpoint", "load"},
    {"no-load-optim", "load"},
    {"no-load-rng", "load"},
    {"override-opt_param-scheduler", "load"},
    {"use-checkpoint-opt_param-scheduler", "load"},
    {"use-checkpoint-args", "load"},
    {"keep-last", "save"},
    {"wandb-exp-name", "wandb-project"},
    {"wandb-entity", "wandb-project"},
    {"wandb-save-dir", "wandb-project"},
    {"async-save", "save"},
    {"no-save-optim", "save"},
    {"recompute-method", "recompute-granularity"},
    {"recompute-num-layers", "recompute-method"},
    {"num-query-groups", "group-query-attention|megatron-model|load|load-hf"},
    {"rope-scaling-factor", "use-rope-scaling"},
    {"loss-scale", "fp16|memory-efficient-fp16"},
    {"initial-loss-scale", "fp16|memory-efficient-fp16"},
    {"min-loss-scale", "fp16|memory-efficient-fp16"},
    {"loss-scale-window", "fp16|memory-efficient-fp16"},
    {"hysteresis", "fp16|memory-efficient-fp16"},
    {"split", "data-path|data-args-path|mock-data"},
    {"profile-step-start", "profile"},
    {"profile-step-end", "profile"},
    {"fp8-recipe", "fp8-format"},
    {"fp8-margin", "fp8-format"},
    {"fp8-amax-history-len", "fp8-format"},
    {"fp8-amax-compute-algo", "fp8-format"},
    {"no-fp8-wgrad", "fp8-format"},
    {"fp8-param-gather", "fp8-format"},
    {"fp8-bf16-fc2-input", "fp8-format"},
    {"first-last-layers-bf16", "fp8-format"},
    {"num-layers-at-start-in-bf16", "first-last-layers-bf16"},
    {"num-layers-at-end-in-bf16", "first-last-layers-bf16"},
    {"optimizer-offload-fraction", "optimizer-cpu-offload"},
    {"verbose", "dry-run"},
    {"world-size", "dry-run"},
};

/* Without what they need, these are refused on the command line. */
#define MASKED "masked-lm|megatron-model|load|load-hf"
static const struct {
    const char *option, *needs;
} refused[] = {
    {"save-interval", "save"},
    {"bert-binary-head", MASKED},
    {"mask-prob", MASKED},
    {"short-seq-prob", MASKED},
};

/* These need --fp8-recipe delayed. */
static const char *const of_delayed[] = {"fp8-margin", "fp8-amax-history-len",
                                         "fp8-amax-compute-algo"};

/* 'option' needs this optimizer. */
static const struct {
    const char *option, *optimizer;
    enum optimizer_kind kind;
} of_optimizers[] = {
    {"use-precision-aware-optimizer", "adam", OPTIMIZER_ADAM},
    {"sgd-momentum", "sgd", OPTIMIZER_SGD},
    {"muon-momentum", "muon", OPTIMIZER_MUON},
    {"muon-use-nesterov", "muon", OPTIMIZER_MUON},
    {"muon-num-ns-steps", "muon", OPTIMIZER_MUON},
    {"muon-coefficient-type", "muon", OPTIMIZER_MUON},
    {"muon-scale-mode", "muon", OPTIMIZER_MUON},
    {"muon-extra-scale-factor", "muon", OPTIMIZER_MUON},
    {"muon-no-split-qkv", "muon", OPTIMIZER_MUON},
    {"muon-tp-mode", "muon", OPTIMIZER_MUON},
    {"muon-fp32-matmul-prec", "muon", OPTIMIZER_MUON},
};

/* 'option' needs rotary embeddings, or those of YaRN. */
static const struct {
    const char *option;
    int yarn;
} of_positions[] = {
    {"rotary-base", 0},
    {"rotary-percent", 0},
    {"use-rope-scaling", 0},
    {"rotary-seq-len-interpolation-factor", 0},
    {"yarn-rotary-scaling-factor", 1},
    {"yarn-original-max-position-embeddings", 1},
    {"yarn-beta-fast", 1},
    {"yarn-beta-slow", 1},
};

static int is_given(const struct options_result *given, const char *names)
{
    char name[64];

    for (const char *at = names; *at; at += strcspn(at, "|"), at += *at == '|') {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "|"), at);
        if (options_given(given, name))
            return 1;
    }
    return 0;
}

const char *effects_needs(const char *option)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(option, rows[i].option) == 0)
            return rows[i].needs;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (strcmp(option, refused[i].option) == 0)
            return refused[i].needs;
    return NULL;
}

void effects_check(const struct arguments *a, const struct options_result *given)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* What follows from the weights needs no option of its own. */
        if (options_given(given, rows[i].option) && !is_given(given, rows[i].needs) &&
            !(a->network_taken && strcmp(rows[i].needs, "use-rope-scaling") == 0))
            log_warning("--%s has no effect without --%.*s; drop it", rows[i].option,
                        (int)strcspn(rows[i].needs, "|"), rows[i].needs);
    }
    for (size_t i = 0; i < sizeof(of_optimizers) / sizeof(of_optimizers[0]); i++)
        if (options_given(given, of_optimizers[i].option) &&
            a->rules.optimizer != of_optimizers[i].kind)
            log_warning("--%s has no effect without --optimizer %s; drop it",
                        of_optimizers[i].option, of_optimizers[i].optimizer);
    for (size_t i = 0; i < sizeof(of_delayed) / sizeof(of_delayed[0]); i++)
        if (options_given(given, of_delayed[i]) &&
            a->model_config.numerics.fp8.format != FP8_NONE &&
            a->model_config.numerics.fp8.recipe != FP8_DELAYED)
            log_warning("--%s has no effect without --fp8-recipe delayed; drop it", of_delayed[i]);
    if (a->precision.exp_avg_sq_bf16 && a->step.beta2 > MOST_BETA2)
        log_warning("with --exp-avg-sq-dtype bf16 and --adam-beta2 %g the average of squared "
                    "gradients cannot follow them, since rounding undoes small changes; use "
                    "--adam-beta2 0.99 or less, or keep it in fp32",
                    a->step.beta2);
    if (a->checkpoint.use_checkpoint_scheduler && !a->run.skip_train &&
        (a->checkpoint.finetune || !a->checkpoint.load_optimizer))
        log_warning("--use-checkpoint-opt_param-scheduler has no effect with --%s, which starts a "
                    "new schedule; drop one",
                    a->checkpoint.finetune ? "finetune" : "no-load-optim");
    if (a->parallel.recompute_method >= 0 &&
        a->parallel.recompute_granularity == GRANULARITY_SELECTIVE)
        log_warning(
            "--recompute-method has no effect with --recompute-granularity selective; drop it");
    if (a->model.rotary_interleaved && a->model.position != POSITION_ROPE)
        log_warning(
            "--rotary-interleaved has no effect without --position-embedding-type rope; drop it");
    else if (a->model.rotary_interleaved)
        log_note("--rotary-interleaved has no effect on training here: it is another order of the "
                 "channels of each head, which `megatron checkpoint import` and `export` convert");
    for (size_t i = 0; i < sizeof(of_positions) / sizeof(of_positions[0]); i++)
        if (options_given(given, of_positions[i].option) && a->model.position != POSITION_YARN &&
            (of_positions[i].yarn || a->model.position != POSITION_ROPE))
            log_warning("--%s has no effect without --position-embedding-type %s; drop it",
                        of_positions[i].option, of_positions[i].yarn ? "yarn" : "rope");
    if (options_given(given, "power") && a->step.lr_decay_style != LR_POLYNOMIAL)
        log_warning("--power has no effect without --lr-decay-style polynomial; drop it");
}

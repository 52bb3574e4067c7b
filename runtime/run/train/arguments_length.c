/* SPDX-License-Identifier: Apache-2.0 */
/* The length of a run, its batch-size ramp-up and its learning-rate schedule. */
#include "arguments_private.h"
#include "run/exchange/origin.h"
#include "lib/parse.h"

#include <inttypes.h>
#include <stdlib.h>

/* The global batch size nearest to 'size' that a ramp-up can reach. */
static int64_t nearest_size(int64_t size, int64_t start, int64_t increment)
{
    int64_t above = size > start ? (size - start) % increment : 0;

    if (size <= start)
        return start;
    if (above > increment / 2 && size <= INT64_MAX - increment)
        return size - above + increment;
    return size - above;
}

static int check_rampup(struct arguments *a, int64_t unit, struct error *err)
{
    int64_t values[3];
    static const char *const names[] = {"--rampup-batch-size START",
                                        "--rampup-batch-size INCREMENT",
                                        "--rampup-batch-size SAMPLES"};
    int interleaved = a->model_config.split.chunks > 1;

    if (a->run.rampup.count == 0)
        return 0;
    if (interleaved)
        unit *= a->layout.pp; /* as for the global batch size */
    if (a->run.rampup.count != 3)
        return error_set(err, "--rampup-batch-size takes three numbers; write START INCREMENT "
                              "SAMPLES, as in 32 32 100000");
    for (int i = 0; i < 3; i++)
        if (parse_int64(names[i], a->run.rampup.items[i], 1, INT64_MAX, &values[i], err) < 0)
            return -1;
    if (a->run.train_samples < 0)
        return error_set(
            err,
            "--rampup-batch-size cannot be used with --train-iters; use --train-samples instead");
    if (values[0] > a->run.global_batch_size ||
        (a->run.global_batch_size - values[0]) % values[1] != 0)
        return error_set(err,
                         "--global-batch-size=%" PRId64 " must be START=%" PRId64
                         " plus a multiple of INCREMENT=%" PRId64
                         " of --rampup-batch-size; the nearest size is %" PRId64,
                         a->run.global_batch_size, values[0], values[1],
                         nearest_size(a->run.global_batch_size, values[0], values[1]));
    if (values[0] % unit != 0 || values[1] % unit != 0)
        return error_set(err,
                         "--rampup-batch-size: START=%" PRId64 " and INCREMENT=%" PRId64
                         " must be multiples of micro-batch size x data-parallel size%s = %" PRId64
                         "; change them",
                         values[0], values[1], interleaved ? " x pipeline-parallel size" : "",
                         unit);
    return 0;
}

int64_t batch_size_at(const struct arguments *a, int64_t consumed)
{
    int64_t start, increment, samples, increments, steps;

    if (a->run.rampup.count != 3)
        return a->run.global_batch_size;
    start = atoll(a->run.rampup.items[0]);
    increment = atoll(a->run.rampup.items[1]);
    samples = atoll(a->run.rampup.items[2]);
    increments = (a->run.global_batch_size - start) / increment;
    if (increments == 0 || consumed > samples)
        return a->run.global_batch_size;
    steps = (int64_t)((double)consumed / ((double)samples / (double)increments));
    return start + (steps < increments ? steps : increments) * increment;
}

int64_t steps_left(const struct arguments *a, int64_t consumed)
{
    int64_t steps = 0, batch;

    while ((batch = batch_size_at(a, consumed)) < a->run.global_batch_size &&
           consumed + batch <= a->run.train_samples) {
        consumed += batch;
        steps++;
    }
    /* If the ramp-up ends early, the remainder is less than one of its steps. */
    if (consumed < a->run.train_samples)
        steps += (a->run.train_samples - consumed) / a->run.global_batch_size;
    return steps;
}

static int count_steps(struct arguments *a, struct error *err)
{
    int64_t unit = a->run.micro_batch_size * a->layout.dp;

    if (a->run.global_batch_size < 0 &&
        __builtin_mul_overflow(unit, a->mlm.update_freq, &a->run.global_batch_size))
        return error_set(err, "--update-freq=%" PRId64 " is too large; lower it",
                         a->mlm.update_freq);
    if (a->run.global_batch_size % unit != 0)
        return error_set(err,
                         "--global-batch-size=%" PRId64
                         " is not a multiple of --micro-batch-size=%" PRId64
                         " x data-parallel size %" PRId64 "; change one of them",
                         a->run.global_batch_size, a->run.micro_batch_size, a->layout.dp);
    if ((a->run.train_iters < 0) == (a->run.train_samples < 0))
        return error_set(err, "the length of the run must be given once; use either --train-iters "
                              "or --train-samples");
    if (check_rampup(a, unit, err) < 0)
        return -1;
    if (a->run.train_iters > 0) {
        a->total_iterations = a->run.train_iters;
        if (__builtin_mul_overflow(a->run.train_iters, a->run.global_batch_size, &a->total_samples))
            return error_set(err, "--train-iters=%" PRId64 " is too large; lower it",
                             a->run.train_iters);
        return 0;
    }
    a->total_samples = a->run.train_samples;
    a->total_iterations = steps_left(a, 0);
    if (a->total_iterations == 0)
        return error_set(err,
                         "--train-samples=%" PRId64
                         " is less than one global batch; raise it, or lower --global-batch-size",
                         a->run.train_samples);
    return 0;
}

int arguments_length(struct arguments *a, struct error *err)
{
    int64_t test, valid;

    if (count_steps(a, err) < 0)
        return -1;
    if (__builtin_mul_overflow(a->run.eval_iters, a->run.global_batch_size, &test) ||
        __builtin_mul_overflow(a->total_iterations / a->run.eval_interval + 1, test, &valid))
        return error_set(
            err,
            "--eval-iters=%" PRId64 " every --eval-interval=%" PRId64
            " steps needs too many validation samples; lower --eval-iters or raise --eval-interval",
            a->run.eval_iters, a->run.eval_interval);
    a->eval_samples[0] = valid;
    a->eval_samples[1] = test;
    return 0;
}

/* Take the learning-rate schedule of the checkpoint that the run resumes from, if it has one. */
static int take_schedule(struct arguments *a, int *taken, struct error *err)
{
    struct step_rules *r = &a->rules, theirs;

    *taken = 0;
    if (!a->checkpoint.use_checkpoint_scheduler || !a->checkpoint.load || a->checkpoint.finetune ||
        !a->checkpoint.load_optimizer)
        return 0;
    *taken = origin_schedule(&theirs, a->checkpoint.load, a->checkpoint.ckpt_step, err);
    if (*taken <= 0)
        return *taken;
    if (!a->run.skip_train && theirs.decay_samples <= 0)
        return error_set(err,
                         "the checkpoint in %s contains no learning-rate schedule; drop "
                         "--use-checkpoint-opt_param-scheduler and set --lr and the decay yourself",
                         a->checkpoint.load);
    r->lr = theirs.lr;
    r->min_lr = theirs.min_lr;
    a->step.weight_decay = r->weight_decay = theirs.weight_decay;
    r->style = theirs.style;
    r->warmup_samples = theirs.warmup_samples;
    r->decay_samples = theirs.decay_samples;
    r->warmup_init = theirs.warmup_init;
    r->wsd_style = theirs.wsd_style;
    r->wsd_samples = theirs.wsd_samples;
    r->decay_style = theirs.decay_style;
    r->start_weight_decay = theirs.start_weight_decay;
    r->decay_growth_samples = theirs.decay_growth_samples;
    r->decoupled_lr = theirs.decoupled_lr;
    r->decoupled_min_lr = theirs.decoupled_min_lr;
    return 0;
}

/* Compute the schedule from the options, in samples. */
static int count_samples(struct arguments *a, struct error *err)
{
    struct step_rules *r = &a->rules;
    double batch = (double)a->run.global_batch_size;
    int by_samples = a->run.train_samples > 0;

    if (a->rules.lr < 0)
        return error_set(err, "--lr is required: the peak learning rate");
    if (by_samples && (a->step.lr_decay_iters > 0 || a->step.lr_warmup_iters > 0))
        return error_set(err, "--train-samples cannot be combined with --lr-decay-iters or "
                              "--lr-warmup-iters; use --lr-decay-samples and --lr-warmup-samples");
    if (!by_samples && (a->step.lr_decay_samples > 0 || a->step.lr_warmup_samples > 0))
        return error_set(err, "--train-iters cannot be combined with --lr-decay-samples or "
                              "--lr-warmup-samples; use --lr-decay-iters and --lr-warmup-iters");
    if (a->step.lr_warmup_fraction >= 0 &&
        (a->step.lr_warmup_iters > 0 || a->step.lr_warmup_samples > 0))
        return error_set(err, "--lr-warmup-fraction cannot be used with --lr-warmup-iters or "
                              "--lr-warmup-samples; drop one");
    if (by_samples)
        r->decay_samples = (double)(a->step.lr_decay_samples > 0 ? a->step.lr_decay_samples
                                                                 : a->run.train_samples);
    else
        r->decay_samples = batch * (double)(a->step.lr_decay_iters > 0 ? a->step.lr_decay_iters
                                                                       : a->run.train_iters);
    if (a->step.lr_warmup_fraction >= 0)
        r->warmup_samples = a->step.lr_warmup_fraction * r->decay_samples;
    else if (by_samples)
        r->warmup_samples = a->step.lr_warmup_samples > 0 ? (double)a->step.lr_warmup_samples : 0;
    else
        r->warmup_samples =
            a->step.lr_warmup_iters > 0 ? batch * (double)a->step.lr_warmup_iters : 0;
    if (r->warmup_samples >= r->decay_samples && r->style != LR_CONSTANT)
        return error_set(err,
                         "the learning-rate warm-up (%.0f samples) must be shorter than the decay "
                         "(%.0f samples); lower --lr-warmup-* or raise --lr-decay-*",
                         r->warmup_samples, r->decay_samples);
    return 0;
}

/* The decay phase of WSD, in samples. */
static int count_wsd(struct arguments *a, struct error *err)
{
    struct step_rules *r = &a->rules;
    int by_samples = a->run.train_samples > 0;
    int64_t given = by_samples ? a->step.lr_wsd_decay_samples : a->step.lr_wsd_decay_iters;

    if (r->style != LR_WSD)
        return 0;
    if (given < 0)
        return error_set(err,
                         "--lr-decay-style WSD requires --lr-wsd-decay-%s with --train-%s; add it",
                         by_samples ? "samples" : "iters", by_samples ? "samples" : "iters");
    r->wsd_style = (enum wsd_style)a->step.lr_wsd_decay_style;
    r->wsd_samples = (double)given * (by_samples ? 1 : (double)a->run.global_batch_size);
    if (r->wsd_samples > r->decay_samples)
        return error_set(err,
                         "the decay of WSD (%.0f samples) is longer than the whole schedule (%.0f "
                         "samples); lower --lr-wsd-decay-*",
                         r->wsd_samples, r->decay_samples);
    return 0;
}

static int set_weight_decay(struct arguments *a, struct error *err)
{
    struct step_rules *r = &a->rules;
    int given = (a->step.start_weight_decay >= 0) + (a->step.end_weight_decay >= 0);

    if (r->decay_style == DECAY_CONSTANT)
        return 0;
    if (given < 2)
        return error_set(err, "--weight-decay-incr-style requires --start-weight-decay and "
                              "--end-weight-decay; add both");
    r->start_weight_decay = a->step.start_weight_decay;
    r->weight_decay = a->step.end_weight_decay;
    r->decay_growth_samples = (double)a->total_samples;
    return 0;
}

/* What plain schedules do not need: warm-up start, decoupled rates, WSD, growing weight decay. */
static int set_more(struct arguments *a, struct error *err)
{
    struct step_rules *r = &a->rules;

    if (a->rules.warmup_init > a->rules.lr)
        return error_set(err, "--lr-warmup-init=%g must be at most --lr=%g; correct one of them",
                         a->rules.warmup_init, a->rules.lr);
    if (a->step.decoupled_lr >= 0) {
        r->decoupled_lr = a->step.decoupled_lr;
        r->decoupled_min_lr = a->step.decoupled_min_lr >= 0 ? a->step.decoupled_min_lr : 0;
        if (r->decoupled_min_lr > r->decoupled_lr)
            return error_set(err,
                             "--decoupled-lr=%g must be at least --decoupled-min-lr=%g; raise the "
                             "former, or lower the latter",
                             a->step.decoupled_lr, r->decoupled_min_lr);
    }
    return count_wsd(a, err) < 0 || set_weight_decay(a, err) < 0 ? -1 : 0;
}

/* The types of Adam's moments. */
static int check_moments(const struct arguments *a, struct error *err)
{
    if (!a->precision.exp_avg_bf16 && !a->precision.exp_avg_sq_bf16)
        return 0;
    if (!a->precision.precision_aware)
        return error_set(err, "--exp-avg-dtype and --exp-avg-sq-dtype require "
                              "--use-precision-aware-optimizer; add it");
    if (a->rules.optimizer != OPTIMIZER_ADAM)
        return error_set(err, "--exp-avg-dtype and --exp-avg-sq-dtype require --optimizer adam; "
                              "drop them, or change --optimizer");
    return 0;
}

int arguments_schedule(struct arguments *a, struct error *err)
{
    int taken;

    a->rules.weight_decay = a->step.weight_decay;
    a->rules.beta1 = a->step.beta1;
    a->rules.dynamic_scale = a->precision.fp16 && a->step.loss_scale <= 0;
    a->rules.hysteresis = (int)a->step.hysteresis;
    a->reads_files = 1;
    if (take_schedule(a, &taken, err) < 0)
        return error_prefix(err, "--use-checkpoint-opt_param-scheduler");
    a->reads_files = 0;
    a->rules.optimizer = OPTIMIZER_ADAM; /* the schedule of a checkpoint has its own */
    if (a->step.optimizer == OPTIMIZER_SGD) {
        a->rules.optimizer = OPTIMIZER_SGD;
        a->rules.beta1 = a->step.sgd_momentum;
    }
    if (arguments_muon(a, err) < 0 || check_moments(a, err) < 0)
        return -1;
    if (taken)
        return 0;
    return count_samples(a, err) < 0 || set_more(a, err) < 0 ? -1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a training step that lives where the kernels read it: counters, learning rate, loss
 * scale, clip factor, the decision to skip. The rules that change it are here too, as functions
 * that compile as C and as CUDA C++ (a GPU runs them in a kernel of one thread): no step waits for
 * the host. */
#ifndef MEGATRON_STEP_H
#define MEGATRON_STEP_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define STEP_FUNCTION static __host__ __device__ inline
#else
#define STEP_FUNCTION static inline
#endif

enum lr_style { LR_LINEAR, LR_COSINE, LR_INVERSE_SQUARE_ROOT, LR_CONSTANT, LR_WSD, LR_POLYNOMIAL };

/* How the learning rate falls at the end of WSD (warm-up, stable, decay). */
enum wsd_style { WSD_EXPONENTIAL, WSD_LINEAR, WSD_COSINE, WSD_MINUS_SQRT };

/* How the weight decay grows from 'start_weight_decay' to 'weight_decay'. */
enum decay_style { DECAY_CONSTANT, DECAY_LINEAR, DECAY_COSINE };

/* Muon updates matrices; Adam updates the rest. */
enum optimizer_kind { OPTIMIZER_ADAM, OPTIMIZER_SGD, OPTIMIZER_MUON };

/* Constant over a run. Schedules count samples, as in Megatron. */
struct step_rules {
    double lr, min_lr;
    enum lr_style style;
    double power; /* of LR_POLYNOMIAL */
    double warmup_samples, decay_samples;
    double weight_decay;
    double warmup_init; /* learning rate at the start of warm-up */
    enum wsd_style wsd_style;
    double wsd_samples; /* length of WSD's decay */
    enum decay_style decay_style;
    double start_weight_decay, decay_growth_samples; /* with a decay_style other than constant */
    double decoupled_lr, decoupled_min_lr; /* of embedding and output layer; 0: like the others */
    enum optimizer_kind optimizer;
    double beta1, beta2;  /* for Adam's moments; SGD: beta1 is the momentum */
    int raw_epsilon;      /* Adam's epsilon is added before the bias correction, as in fairseq */
    double clip;          /* limit of the global gradient norm; 0: no clipping */
    int dynamic_scale;    /* fp16: the loss scale follows overflows */
    double min_scale;     /* minimum of the dynamic scale */
    int64_t scale_window; /* consecutive good steps before the scale doubles */
    int hysteresis;       /* overflows before the scale halves; doubling resets the count */
    int per_token;        /* the gradient is the mean over all trained tokens of a step */
    int weigh_tokens;     /* steps of a log line count by their trained tokens, not alike */
};

/* The losses of a step: 'tokens' and what follows it in struct step_state. The data-parallel ranks
 * sum all of them at once. */
enum { STEP_LOSSES = 3 };

/* One per rank, in device memory. Initialized on the host by step_state_init and copied there. */
struct step_state {
    /* Written by the host before each step (one small copy to this address). */
    int64_t iteration; /* of this step, from 0; the step number of every random draw */
    int64_t samples;   /* in this step's global batch */

    uint64_t seed;             /* seed of every random draw */
    int64_t scheduled_samples; /* of the steps taken (skipped ones do not count) */
    int64_t adam_step;         /* steps taken */
    float lr, weight_decay;    /* of the next optimizer update */
    float decoupled_lr;        /* and learning rate of embedding and output layer */
    float loss_scale;
    float grad_factor;              /* set by step_clip: factor of the gradients in the update */
    float correction1, correction2; /* and divisors of Adam's moments */
    int32_t skip;       /* set by step_clip: gradients contained Inf or NaN, the update does
                           nothing */
    int32_t good_steps; /* consecutive */
    int32_t hysteresis; /* overflows left before the scale halves */
    /* Written by the host after the last pass of a step: what losses and gradients of its tokens
     * were divided by before the masks of all ranks were known, and the number of tokens that are
     * not masked. */
    double nominal;
    double tokens;       /* of this rank, then of all; the first of STEP_LOSSES */
    double loss;         /* of this step: sum of the losses of its tokens / nominal, + pair_loss */
    double pair_loss;    /* mean loss of the binary head */
    double norm_squared; /* of this step's scaled gradients */
    double grad_norm;    /* set by step_clip: without the loss scale */

    /* Accumulated since the last STEP_RESET, for a log line. */
    double loss_total, weight_total; /* weight x loss, weight */
    double pair_total;               /* weight x pair_loss */
    double norm_total;               /* of the gradients */
    int64_t clipped;                 /* steps whose norm exceeded the limit */
    int64_t taken, skipped, nans;
    int64_t overflows; /* steps with an Inf or NaN among the values that fp8 scales depend on */
};

/* The parts of a step; STEP_... in struct step_shape (operation.h) names one of them. */
enum step_phase {
    STEP_BEGIN, /* before the first micro-batch: clear loss and norm */
    STEP_CLIP,  /* the norm is complete on all ranks: decide factor and skip */
    STEP_END,   /* after the update: counters, loss scale, next learning rate */
    STEP_RESET, /* after a log line */
};
enum { STEP_PHASES = STEP_RESET + 1 };

/* The share of the learning rate above its minimum in the decay of WSD. */
STEP_FUNCTION double step_wsd(const struct step_rules *rules, double samples)
{
    double start = rules->decay_samples - rules->wsd_samples, progress;

    if (samples <= start)
        return 1;
    progress = (samples - start) / rules->wsd_samples;
    switch (rules->wsd_style) {
    case WSD_LINEAR:
        return 1 - progress;
    case WSD_COSINE:
        return 0.5 * (cos(3.14159265358979323846 * progress) + 1);
    case WSD_MINUS_SQRT:
        return 1 - sqrt(progress);
    default:
        return 2 * pow(0.5, progress) - 1;
    }
}

/* The learning rate of the schedule between 'low' and 'high'. */
STEP_FUNCTION double step_lr_between(const struct step_rules *rules, double samples, double high,
                                     double low)
{
    double progress, coefficient;

    if (rules->warmup_samples > 0 && samples <= rules->warmup_samples) {
        if (rules->warmup_init == 0)
            return high * samples / rules->warmup_samples;
        return rules->warmup_init + (high - rules->warmup_init) * samples / rules->warmup_samples;
    }
    if (rules->style == LR_CONSTANT)
        return high;
    if (samples > rules->decay_samples)
        return low;
    if (rules->style == LR_INVERSE_SQUARE_ROOT) {
        double warm = rules->warmup_samples > 1 ? rules->warmup_samples : 1;
        double now = samples > 1 ? samples : 1;
        double lr = high * sqrt(warm) / sqrt(now);

        return lr > low ? lr : low;
    }
    progress = (samples - rules->warmup_samples) / (rules->decay_samples - rules->warmup_samples);
    if (rules->style == LR_LINEAR)
        coefficient = 1.0 - progress;
    else if (rules->style == LR_WSD)
        coefficient = step_wsd(rules, samples);
    else if (rules->style == LR_POLYNOMIAL)
        coefficient = pow(1.0 - progress, rules->power);
    else
        coefficient = 0.5 * (cos(3.14159265358979323846 * progress) + 1.0);
    return low + coefficient * (high - low);
}

STEP_FUNCTION double step_lr(const struct step_rules *rules, double samples)
{
    return step_lr_between(rules, samples, rules->lr, rules->min_lr);
}

STEP_FUNCTION double step_weight_decay(const struct step_rules *rules, double samples)
{
    double progress, coefficient;

    if (rules->decay_style == DECAY_CONSTANT || samples > rules->decay_growth_samples)
        return rules->weight_decay;
    progress = samples / rules->decay_growth_samples;
    coefficient = rules->decay_style == DECAY_LINEAR
                      ? progress
                      : 0.5 * (cos(3.14159265358979323846 * (1 - progress)) + 1);
    return rules->start_weight_decay +
           coefficient * (rules->weight_decay - rules->start_weight_decay);
}

/* Learning rate and weight decay of the next update. */
STEP_FUNCTION void step_state_refresh(struct step_state *state, const struct step_rules *rules)
{
    double samples = (double)state->scheduled_samples;

    state->lr = (float)step_lr(rules, samples);
    state->decoupled_lr =
        rules->decoupled_lr > 0
            ? (float)step_lr_between(rules, samples, rules->decoupled_lr, rules->decoupled_min_lr)
            : state->lr;
    state->weight_decay = (float)step_weight_decay(rules, samples);
}

STEP_FUNCTION void step_begin(struct step_state *state)
{
    state->loss = state->pair_loss = 0;
    state->norm_squared = 0;
    state->skip = 0;
}

/* What turns a sum over the tokens of a step, divided by 'nominal', into their mean. It is exactly
 * 1 if no token is masked. */
STEP_FUNCTION double step_mean_factor(const struct step_state *state)
{
    return state->tokens > 0 ? state->nominal / state->tokens : 1;
}

STEP_FUNCTION void step_clip(struct step_state *state, const struct step_rules *rules)
{
    double mean = rules->per_token ? step_mean_factor(state) : 1;
    double norm = sqrt(state->norm_squared) / state->loss_scale * mean;

    state->skip = !isfinite(norm);
    state->grad_norm = norm;
    state->grad_factor = (float)mean / state->loss_scale;
    if (rules->clip > 0 && norm > 0 && rules->clip / (norm + 1e-6) < 1)
        state->grad_factor *= (float)(rules->clip / (norm + 1e-6));
    state->correction1 = (float)(1 - pow(rules->beta1, (double)(state->adam_step + 1)));
    state->correction2 = (float)(1 - pow(rules->beta2, (double)(state->adam_step + 1)));
    if (rules->raw_epsilon) {
        /* lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon) */
        state->correction1 = (float)((1 - pow(rules->beta1, (double)(state->adam_step + 1))) /
                                     sqrt(1 - pow(rules->beta2, (double)(state->adam_step + 1))));
        state->correction2 = 1;
    }
}

STEP_FUNCTION void step_scale(struct step_state *state, const struct step_rules *rules)
{
    if (state->skip) {
        state->good_steps = 0;
        state->hysteresis--;
        if (state->hysteresis <= 0) {
            state->loss_scale *= 0.5f;
            if (state->loss_scale < rules->min_scale)
                state->loss_scale = (float)rules->min_scale;
        }
    } else if (++state->good_steps == rules->scale_window) {
        state->good_steps = 0;
        state->hysteresis = rules->hysteresis;
        state->loss_scale *= 2;
    }
}

STEP_FUNCTION void step_end(struct step_state *state, const struct step_rules *rules)
{
    double weight = rules->weigh_tokens ? state->tokens : 1;
    double loss = (state->loss - state->pair_loss) * step_mean_factor(state);

    if (rules->dynamic_scale)
        step_scale(state, rules);
    if (!isfinite(state->loss))
        state->nans++;
    if (state->skip) {
        state->skipped++;
        return;
    }
    state->taken++;
    state->loss_total += weight * (loss + state->pair_loss);
    state->pair_total += weight * state->pair_loss;
    state->weight_total += weight;
    state->norm_total += state->grad_norm;
    state->clipped += rules->clip > 0 && state->grad_norm > rules->clip;
    state->adam_step++;
    state->scheduled_samples += state->samples;
    step_state_refresh(state, rules);
}

STEP_FUNCTION void step_reset(struct step_state *state)
{
    state->loss_total = state->pair_total = state->weight_total = state->norm_total = 0;
    state->clipped = 0;
    state->taken = state->skipped = state->nans = state->overflows = 0;
}

#endif

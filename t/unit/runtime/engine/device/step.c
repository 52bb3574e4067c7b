/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of learning rate and weight decay: values of megatron-core 0.16's
 * OptimizerParamScheduler (t/peers/schedule compares whole runs). */
#include "engine/device/step.h"
#include "tap.h"

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static const struct step_rules usual = {.lr = 1e-3,
                                        .min_lr = 1e-5,
                                        .warmup_samples = 20,
                                        .decay_samples = 100,
                                        .wsd_samples = 40,
                                        .decay_growth_samples = 100};

static void test_wsd(void)
{
    enum { TIMES = 9 };
    static const double times[TIMES] = {7, 20, 50, 60, 61, 80, 99, 100, 101};
    static const struct {
        enum wsd_style style;
        const char *name;
        double lr[TIMES];
    } rows[] = {
        {WSD_EXPONENTIAL,
         "exponential",
         {3.5e-4, 1e-3, 1e-3, 1e-3, 0.00096598478512, 0.000420071426749, 2.73048951817e-05, 1e-5,
          1e-5}},
        {WSD_LINEAR,
         "linear",
         {3.5e-4, 1e-3, 1e-3, 1e-3, 0.00097525, 0.000505, 3.475e-05, 1e-5, 1e-5}},
        {WSD_COSINE,
         "cosine",
         {3.5e-4, 1e-3, 1e-3, 1e-3, 0.000998474080198, 0.000505, 1.15259198021e-05, 1e-5, 1e-5}},
        {WSD_MINUS_SQRT,
         "minus_sqrt",
         {3.5e-4, 1e-3, 1e-3, 1e-3, 0.000843467255822, 0.000299964286625, 2.24533259225e-05, 1e-5,
          1e-5}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct step_rules rules = usual;
        int good = 1;

        rules.style = LR_WSD;
        rules.wsd_style = rows[i].style;
        for (int t = 0; t < TIMES; t++)
            good &= near(step_lr(&rules, times[t]), rows[i].lr[t]);
        ok(good, "WSD, %s", rows[i].name);
    }
}

static void test_rest(void)
{
    static const double samples[] = {1, 30, 50, 99, 100, 130};
    static const double linear[] = {0.0109, 0.037, 0.055, 0.0991, 0.1, 0.1};
    static const double cosine[] = {
        0.0100222047835, 0.0285496636468, 0.055, 0.0999777952165, 0.1, 0.1};
    struct step_rules rules = usual;
    struct step_state state = {0};
    int good[2] = {1, 1};

    rules.warmup_init = 2e-4;
    ok(near(step_lr(&rules, 1), 0.00024) && near(step_lr(&rules, 10), 0.0006) &&
           near(step_lr(&rules, 20), 0.001) && near(step_lr(&rules, 60), 0.000505),
       "warm-up from a learning rate");
    rules = usual;
    rules.start_weight_decay = 0.01;
    rules.weight_decay = 0.1;
    for (int i = 0; i < 6; i++) {
        rules.decay_style = DECAY_LINEAR;
        good[0] &= near(step_weight_decay(&rules, samples[i]), linear[i]);
        rules.decay_style = DECAY_COSINE;
        good[1] &= near(step_weight_decay(&rules, samples[i]), cosine[i]);
    }
    ok(good[0], "weight decay that grows linearly");
    ok(good[1], "weight decay that grows like a cosine");
    rules = usual;
    rules.style = LR_COSINE;
    rules.decoupled_lr = 5e-3;
    rules.decoupled_min_lr = 5e-4;
    state.scheduled_samples = 60;
    step_state_refresh(&state, &rules);
    ok(fabs(state.decoupled_lr - 0.00275) < 1e-9 && fabs(state.lr - 0.000505) < 1e-9,
       "a learning rate of embedding and output layer");
    rules.decoupled_lr = 0;
    step_state_refresh(&state, &rules);
    ok(state.decoupled_lr == state.lr, "which is that of the others by default");
}

/* 40 of the 160 tokens that the losses were weighed for are trained: sums are a quarter of the
 * means. */
static void test_tokens(void)
{
    static const struct {
        struct step_rules rules;
        double norm, factor, loss, weight;
    } rows[] = {
        {{.clip = 0}, 3, 1 / 8.0, 4 * 2, 1},
        {{.clip = 0, .per_token = 1}, 12, 4 / 8.0, 4 * 2, 1},
        {{.clip = 6, .per_token = 1}, 12, 4 / 8.0 / 2, 4 * 2, 1},
        {{.clip = 0, .per_token = 1, .weigh_tokens = 1}, 12, 4 / 8.0, 4 * 2, 40},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct step_state state = {.nominal = 160,
                                   .tokens = 40,
                                   .loss = 2.5,
                                   .pair_loss = 0.5,
                                   .norm_squared = 24 * 24,
                                   .loss_scale = 8};

        step_clip(&state, &rows[i].rules);
        ok(near(state.grad_norm, rows[i].norm) &&
               fabs(state.grad_factor - rows[i].factor) < 1e-6 * rows[i].factor,
           "norm and factor of the gradient, %zu", i);
        step_end(&state, &rows[i].rules);
        ok(near(state.weight_total, rows[i].weight) &&
               near(state.loss_total - state.pair_total, rows[i].loss * rows[i].weight) &&
               near(state.pair_total, 0.5 * rows[i].weight),
           "  and what the log counts");
    }
}

int main(void)
{
    test_wsd();
    test_tokens();
    test_rest();
    return done_testing();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The options of Muon, with the names and coefficients of Megatron-core, and its defaults except
 * that of --muon-tp-mode, which is duplicated (whole matrices) here. */
#include "arguments_private.h"

#include <inttypes.h>
#include <string.h>

/* Indices of the words of the options. */
enum optimizer_word { WORD_ADAM, WORD_SGD, WORD_MUON, WORD_DIST_MUON };
enum precision_word { PRECISION_MEDIUM, PRECISION_LOW, PRECISION_HIGH };
enum tp_mode_word { TP_DUPLICATED, TP_BLOCKWISE };

/* a, b and c of the steps; 'repeats': the set as a whole is repeated, otherwise its last step. */
static const struct coefficients {
    const char *name;
    int steps, repeats;
    double abc[8][3];
} sets[] = {
    {"quintic",
     5,
     1,
     {{4.0848, -6.8946, 2.9270},
      {3.9505, -6.3029, 2.6377},
      {3.7418, -5.5913, 2.3037},
      {2.8769, -3.1427, 1.2046},
      {2.8366, -3.0525, 1.2012}}},
    {"simple", 1, 1, {{3.4445, -4.7750, 2.0315}}},
    {"polar_express",
     8,
     0,
     {{8.2051, -22.9019, 16.4607},
      {4.0664, -2.8612, 0.5184},
      {3.9096, -2.8234, 0.5250},
      {3.2856, -2.4153, 0.4853},
      {2.2779, -1.6198, 0.3985},
      {1.8726, -1.2307, 0.3585},
      {1.8564, -1.2132, 0.3568},
      {1.8750, -1.2500, 0.3750}}},
    {"aol",
     4,
     1,
     {{4.0098, -7.0585, 2.4635},
      {3.4585, -5.5479, 2.5959},
      {2.7573, -3.2939, 1.4254},
      {2.7215, -3.0494, 1.3169}}},
};

static int set_rule(struct newton_schulz_rule *rule, const struct coefficients *set, int64_t steps,
                    struct error *err)
{
    if (steps > NEWTON_SCHULZ_STEPS)
        return error_set(err, "--muon-num-ns-steps=%" PRId64 " must be at most %d", steps,
                         NEWTON_SCHULZ_STEPS);
    if (set->repeats && steps % set->steps != 0)
        return error_set(err,
                         "--muon-num-ns-steps=%" PRId64 " is not a multiple of the %d steps of "
                         "--muon-coefficient-type %s; change it",
                         steps, set->steps, set->name);
    if (steps < set->steps)
        return error_set(err,
                         "--muon-num-ns-steps=%" PRId64
                         " is less than the %d steps of --muon-coefficient-type %s; raise it",
                         steps, set->steps, set->name);
    rule->steps = (int)steps;
    for (int i = 0; i < (int)steps; i++) {
        int last = i < set->steps ? i : set->steps - 1;

        memcpy(rule->coefficients[i], set->abc[set->repeats ? i % set->steps : last],
               sizeof(rule->coefficients[i]));
    }
    return 0;
}

int arguments_muon(struct arguments *a, struct error *err)
{
    if (a->step.optimizer != WORD_MUON && a->step.optimizer != WORD_DIST_MUON)
        return 0;
    if (a->precision.gradients_bf16)
        return error_set(err, "--grad-reduce-in-bf16 cannot be used with --optimizer muon, which "
                              "orthogonalizes gradients in fp32; drop it");
    a->rules.optimizer = OPTIMIZER_MUON;
    a->muon.blockwise = a->step.muon_options.tp_mode == TP_BLOCKWISE;
    a->muon.fp32 = a->step.muon_options.precision == PRECISION_HIGH;
    return set_rule(&a->muon.rule, &sets[a->step.muon_options.coefficients],
                    a->step.muon_options.steps, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate.h"

#include <math.h>
#include <stddef.h>

#include "estimate.h"

/* The constants, and how far they may go. */
static const struct {
    size_t offset;
    double least, most;
} constants[] = {
    {offsetof(struct machine_rates, product), 0.02, 1},
    {offsetof(struct machine_rates, flash), 0.02, 1},
    {offsetof(struct machine_rates, hidden_traffic), 0.5, 60},
    {offsetof(struct machine_rates, ffn_traffic), 0.5, 30},
    {offsetof(struct machine_rates, logit_bytes), 2, 60},
};
enum { CONSTANTS = sizeof(constants) / sizeof(*constants) };

static double *constant(struct machine *machine, int index)
{
    return (double *)(void *)((char *)&machine->gpu.rates + constants[index].offset);
}

/* Sum of the squared logarithms of measured over predicted times, and in '*mean' the mean error. */
static double misfit(const struct machine *machine, double *mean)
{
    struct machine model = *machine;
    double sum = 0, errors = 0;

    model.gpu.own = model.gpu.rates;
    model.gpu.step_count = 0;
    for (int i = 0; i < machine->gpu.step_count; i++) {
        const struct machine_step *step = &machine->gpu.steps[i];
        struct plan_run run = plan_run_of_step(step);
        struct plan_time t = plan_estimate(&run, &model);
        double layer = log(step->layer / (t.products + t.attention + t.elementwise));
        double head = log(step->head / t.head);

        sum += layer * layer + 0.2 * head * head; /* there are many layers and one head */
        errors += fabs(layer);
    }
    *mean = machine->gpu.step_count > 0 ? errors / machine->gpu.step_count : 0;
    return sum;
}

/* Try larger and smaller values of every constant in turn, until none helps. */
static double improve(struct machine *machine, double factor, double best)
{
    enum { ROUNDS = 200 };
    int better = 1;
    double mean;

    for (int round = 0; round < ROUNDS && better; round++) {
        better = 0;
        for (int i = 0; i < 2 * CONSTANTS; i++) {
            double *value = constant(machine, i / 2), before = *value, now;

            *value = fmin(constants[i / 2].most,
                          fmax(constants[i / 2].least, i % 2 ? before / factor : before * factor));
            now = misfit(machine, &mean);
            if (now < best * (1 - 1e-9)) {
                best = now;
                better = 1;
            } else {
                *value = before;
            }
        }
    }
    return best;
}

double calibrate_fit(struct machine *machine)
{
    static const double factors[] = {1.5, 1.2, 1.08, 1.03, 1.01, 1.003};
    double mean, best = misfit(machine, &mean);

    for (size_t i = 0; i < sizeof(factors) / sizeof(*factors); i++)
        best = improve(machine, factors[i], best);
    misfit(machine, &mean);
    machine->gpu.own = machine->gpu.rates;
    return mean;
}

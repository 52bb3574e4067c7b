/* SPDX-License-Identifier: Apache-2.0 */
#include "standstill.h"

void standstill_look(struct standstill *standstill, const struct step_state *state,
                     const struct step_rules *rules, int64_t iteration)
{
    /* While a dynamic loss scale still falls, the next step may succeed. */
    int scale_falls = rules->dynamic_scale && state->loss_scale > rules->min_scale;

    if (state->adam_step == standstill->adam_step && !scale_falls)
        return;
    standstill->adam_step = state->adam_step;
    standstill->iteration = iteration;
}

int64_t standstill_steps(const struct standstill *standstill, int64_t iteration)
{
    return iteration - standstill->iteration;
}

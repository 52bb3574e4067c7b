/* SPDX-License-Identifier: Apache-2.0 */
/* Detects a run whose gradients are no longer finite: every step is skipped and the weights no
 * longer change. Counted in steps, at times when the host reads the device's counters anyway; the
 * same on all ranks. */
#ifndef MEGATRON_STANDSTILL_H
#define MEGATRON_STANDSTILL_H

#include <stdint.h>

#include "engine/device/step.h"

/* Consecutive skipped steps: after the first number no checkpoint is saved, after the second the
 * run ends. A single bad batch, or the first steps of fp16, never last this long. */
enum { STANDSTILL_UNSAVED = 10, STANDSTILL_END = 100 };

struct standstill {
    int64_t adam_step; /* steps taken when the number last grew or the run started */
    int64_t iteration; /* the iteration at that time */
};

/* Record the counters after 'iteration' steps. */
void standstill_look(struct standstill *standstill, const struct step_state *state,
                     const struct step_rules *rules, int64_t iteration);

/* Lower bound of the number of consecutive skipped steps. */
int64_t standstill_steps(const struct standstill *standstill, int64_t iteration);

#endif

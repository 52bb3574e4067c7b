/* A run whose gradients have ceased to be finite: it takes no step any more, and its weights stay
 * as the last one left them. Counted in steps from times at which the host looks at the device's
 * counters anyway; the same on all ranks. */
#ifndef MEGATRON_STANDSTILL_H
#define MEGATRON_STANDSTILL_H

#include <stdint.h>

#include "step.h"

/* Steps in a row that were skipped: before no checkpoint is saved any more, and before the run
 * ends. A batch may be bad, and fp16 skips its first steps; neither lasts so long. */
enum { STANDSTILL_UNSAVED = 10, STANDSTILL_END = 100 };

struct standstill {
    int64_t adam_step; /* steps taken, when that was last seen to grow or the run began */
    int64_t iteration; /* and the iteration of then */
};

/* Take note of the counters behind 'iteration' steps. */
void standstill_look(struct standstill *standstill, const struct step_state *state,
                     const struct step_rules *rules, int64_t iteration);

/* How many steps in a row were skipped, at least. */
int64_t standstill_steps(const struct standstill *standstill, int64_t iteration);

#endif

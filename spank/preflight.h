/* SPDX-License-Identifier: Apache-2.0 */
/* --megatron-preflight: `megatron preflight` as a step on the nodes of this one, before its tasks
 * start. */
#ifndef MEGATRON_SPANK_PREFLIGHT_H
#define MEGATRON_SPANK_PREFLIGHT_H

#include "settings.h"

struct preflight_step {
    const char *srun; /* path of this program */
    uint32_t job;
    uint32_t tasks, nodes;
    const char *hosts; /* of the step, as a host list */
};

enum preflight_answer { PREFLIGHT_PASSED, PREFLIGHT_SICK, PREFLIGHT_UNKNOWN };

/* Run it, and call 'say' with each line of its output. With PREFLIGHT_UNKNOWN 'err' says why. */
enum preflight_answer preflight_step_run(const struct preflight_step *step,
                                         enum preflight_form form,
                                         void (*say)(void *argument, const char *line),
                                         void *argument, struct error *err);

#endif

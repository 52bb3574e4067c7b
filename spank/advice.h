/* SPDX-License-Identifier: Apache-2.0 */
/* What `megatron plan` says about a job before it is queued: does the model fit into the GPUs with
 * this layout, and if not, which layout does? The program does the planning; its answer is called
 * advice here. */
#ifndef MEGATRON_ADVICE_H
#define MEGATRON_ADVICE_H

#include <stdbool.h>
#include "checks.h"
#include "settings.h"

struct advice {
    bool known;           /* the program could tell */
    bool fits;            /* with the layout of the settings */
    char problem[512];    /* why it does not, or why nothing is known, if that is worth a line */
    bool bad_nodes;       /* the kind of the nodes, or their GPUs, cannot be right; see problem */
    struct layout better; /* one that fits; tp is 0 if none does on these nodes */
    char plan[4096];      /* the plan of the layout, as `megatron plan` prints it */
};

/* Ask for nodes of 'kind'. Nothing is known if the model or the counts are not, if the job neither
 * uses all GPUs of its nodes nor asks for as many GPUs per node as it has tasks there, or if there
 * is no answer within a few seconds. */
void advice_plan(const struct settings *settings, const struct counts *counts, const char *kind,
                 struct advice *advice);

#endif

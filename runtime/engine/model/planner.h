/* SPDX-License-Identifier: Apache-2.0 */
/* Creating several plans in a row: the first that fails leaves its error, later ones are skipped.
 */
#ifndef MEGATRON_PLANNER_H
#define MEGATRON_PLANNER_H

#include "model_private.h"

struct planner {
    struct device *device;
    struct error *err;
    int failed;
};

static inline void planner_make(struct planner *p, struct device_plan **plan,
                                const struct operation *operation)
{
    if (p->failed)
        return;
    *plan = plan_create(p->device, operation, p->err);
    p->failed = !*plan;
}

#endif

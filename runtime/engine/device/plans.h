/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with one owner, which are created one after the other and destroyed together.
 *
 *     struct plans plans = {.device = device};
 *     struct planner p = {.plans = &plans, .err = err};
 *
 *     layer->add = plan_make(&p, &add);
 *     layer->scale = plan_make(&p, &scale);
 *     if (p.failed)
 *         return -1;
 *     ...
 *     plans_destroy(&plans);
 */
#ifndef MEGATRON_PLANS_H
#define MEGATRON_PLANS_H

#include <stdbool.h>

#include "base/core/list.h"
#include "device.h"

struct plans {
    struct device *device;
    struct device_plan **items;
    size_t count, room;
};

/* Creates plans in a row: the first that fails leaves its error, later ones are skipped. */
struct planner {
    struct plans *plans;
    struct error *err;
    bool failed;
};

/* NULL if this plan or an earlier one has failed. */
static inline struct device_plan *plan_make(struct planner *p, const struct operation *operation)
{
    struct device_plan *plan = p->failed ? NULL : plan_create(p->plans->device, operation, p->err);

    p->failed = !plan;
    if (plan)
        *list_add(p->plans) = plan;
    return plan;
}

static inline void plans_destroy(struct plans *plans)
{
    for (size_t i = 0; i < plans->count; i++)
        plan_destroy(plans->items[i]);
    list_free(plans);
}

/* Run an operation once, and wait for it. */
static inline int plan_run_once(struct device_stream *stream, const struct operation *operation,
                                const void *operands, size_t size, struct error *err)
{
    struct device_plan *plan = plan_create(stream->device, operation, err);
    int rc;

    if (!plan)
        return -1;
    plan->run(plan, stream, operands, size);
    rc = device_stream_wait(stream, 600, err);
    plan_destroy(plan);
    return rc;
}

#endif

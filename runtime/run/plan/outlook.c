/* SPDX-License-Identifier: Apache-2.0 */
#include "outlook.h"

#include <math.h>

/* Weights and both moments in fp32, as checkpoints hold them. */
#define CHECKPOINT_BYTES 12

static double all_parameters(const struct plan_run *run)
{
    const struct model_shape *shape = &run->shape;
    double hidden = (double)shape->hidden, heads = (double)shape->heads;
    double groups = (double)shape->query_groups, size = (double)shape->kv_channels;
    double layer = hidden * size * (2 * heads + 2 * groups) +
                   (run->gated ? 3 : 2) * hidden * (double)shape->ffn_hidden;

    return (double)shape->layers * layer + (run->tied ? 1 : 2) * (double)shape->vocabulary * hidden;
}

/* Young's interval, and the shares of time that it and the faults cost. */
static void plan_saves(struct outlook *o, double step, double restart)
{
    double between = o->fault_hours * 3600;

    o->interval = fmax(sqrt(2 * o->save_seconds * between), step);
    o->interval_steps = (int64_t)fmax(1, round(o->interval / step));
    o->interval = (double)o->interval_steps * step;
    o->lost = o->save_seconds / o->interval + (o->interval / 2 + restart) / between;
    o->lost = fmin(o->lost, 0.99);
}

struct outlook outlook_of(const struct candidate *candidate, const struct search_request *search,
                          const struct outlook_request *request)
{
    const struct machine *machine = search->machine;
    const struct plan_time *t = &candidate->time;
    const struct plan_run *run = &candidate->run;
    double nodes = (double)search->nodes, gpus = nodes * machine->gpus;
    double tokens = (double)(run->global_batch * run->shape.sequence);
    struct outlook o = {.low = t->total * (1 - machine->gpu.time_error),
                        .high = t->total * (1 + machine->gpu.time_error)};

    o.tflops = plan_flops(run) / t->total / gpus / 1e12;
    o.mfu = o.tflops * 1e12 / machine->gpu.flops[run->precision];
    o.tokens_per_second = tokens / t->total;
    o.bubble = t->bubble / t->total;
    o.exposed = (t->tensor + t->context + t->pipeline + t->data) / t->total;
    o.checkpoint = CHECKPOINT_BYTES * all_parameters(run);
    o.save_seconds = o.checkpoint / (nodes * machine->save_bandwidth);
    o.fault_hours = machine->fault_hours / gpus;
    plan_saves(&o, t->total, request->restart_seconds);
    o.days = request->tokens / o.tokens_per_second / (1 - o.lost) / 86400;
    o.dollars = o.days * 24 * nodes * request->price;
    return o;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include <string.h>

void overlap_create(struct overlap *o, const struct parallel *parallel, struct device *device)
{
    *o = (struct overlap){.parallel = parallel,
                          .compute = device_stream_create(device, 0),
                          .side = device_stream_create(device, 1),
                          .computed = device_event_create(device, 0),
                          .communicated = device_event_create(device, 0)};
}

void overlap_destroy(struct overlap *o)
{
    device_event_destroy(o->computed);
    device_event_destroy(o->communicated);
    device_stream_destroy(o->compute);
    device_stream_destroy(o->side);
    memset(o, 0, sizeof(*o));
}

static int has_collectives(const struct overlap *o)
{
    return o->parallel->layout.tp > 1 || o->parallel->layout.cp > 1;
}

void overlap_begin(struct overlap *o)
{
    if (!has_collectives(o))
        return;
    device_event_record(o->computed, o->compute);
    device_event_follow(o->side, o->computed);
}

void overlap_end(struct overlap *o)
{
    if (!has_collectives(o))
        return;
    device_event_record(o->communicated, o->side);
    device_event_follow(o->compute, o->communicated);
}

void *sequence_gather(struct overlap *o, const struct sequence_rows *rows, void *part, void *whole)
{
    if (o->parallel->layout.tp == 1)
        return part;
    overlap_begin(o);
    comm_all_gather(o->parallel->tensor, o->side, part, whole,
                    (size_t)(rows->part_rows * rows->cols), rows->type);
    return whole;
}

void sequence_scatter(struct overlap *o, const struct sequence_rows *rows, void *whole, void *part)
{
    if (o->parallel->layout.tp == 1)
        return;
    overlap_begin(o);
    comm_reduce_scatter(o->parallel->tensor, o->side, whole, part,
                        (size_t)(rows->part_rows * rows->cols), rows->type);
}

void *sequence_unreduced(const struct overlap *o, void *part, void *whole)
{
    return o->parallel->layout.tp == 1 ? part : whole;
}

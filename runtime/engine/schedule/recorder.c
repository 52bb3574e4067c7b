/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

/* The first run is not captured: it may allocate memory and load kernels, which cannot be. */
enum state { NEW, RUN, RECORDED, PLAIN };

struct sequence {
    enum state state;
    struct device_graph *graph;
};

struct recorder {
    struct device_stream *stream;
    int count;
    struct sequence sequences[];
};

struct recorder *recorder_create(struct device_stream *stream, int count)
{
    struct recorder *r = xcalloc(1, sizeof(*r) + (size_t)count * sizeof(*r->sequences));

    r->stream = stream;
    r->count = count;
    return r;
}

void recorder_destroy(struct recorder *r)
{
    for (int i = 0; r && i < r->count; i++)
        device_graph_destroy(r->sequences[i].graph);
    free(r);
}

static void record(struct recorder *r, struct sequence *sequence, void (*run)(void *context),
                   void *context)
{
    struct error ignored; /* what cannot be captured is run directly */

    sequence->state = PLAIN;
    if (device_graph_begin(r->stream, &ignored) < 0)
        return;
    run(context);
    sequence->graph = device_graph_end(r->stream, &ignored);
    if (sequence->graph)
        sequence->state = RECORDED;
}

void recorder_run(struct recorder *r, int number, void (*run)(void *context), void *context)
{
    struct sequence *sequence = &r->sequences[number];

    if (sequence->state == RUN)
        record(r, sequence, run, context);
    if (sequence->state == RECORDED) {
        device_graph_launch(sequence->graph, r->stream);
        return;
    }
    if (sequence->state == NEW)
        sequence->state = r->stream->device->can_capture ? RUN : PLAIN;
    run(context);
}

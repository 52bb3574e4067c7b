#include "recorder.h"

#include <stdlib.h>

/* The first run of a piece is not recorded: what is allocated and loaded then cannot be. */
enum state { NEW, RUN, RECORDED, PLAIN };

struct piece {
    enum state state;
    struct device_graph *graph;
};

struct recorder {
    struct device_stream *stream;
    int count;
    struct piece pieces[];
};

struct recorder *recorder_create(struct device_stream *stream, int count, struct error *err)
{
    struct recorder *r = calloc(1, sizeof(*r) + (size_t)count * sizeof(*r->pieces));

    if (!r) {
        error_set(err, "out of memory");
        return NULL;
    }
    r->stream = stream;
    r->count = count;
    return r;
}

void recorder_destroy(struct recorder *r)
{
    for (int i = 0; r && i < r->count; i++)
        device_graph_destroy(r->pieces[i].graph);
    free(r);
}

static void record(struct recorder *r, struct piece *piece, void (*run)(void *context),
                   void *context)
{
    struct error ignored; /* what cannot be recorded is run as it is */

    piece->state = PLAIN;
    if (device_graph_begin(r->stream, &ignored) < 0)
        return;
    run(context);
    piece->graph = device_graph_end(r->stream, &ignored);
    if (piece->graph)
        piece->state = RECORDED;
}

void recorder_run(struct recorder *r, int number, void (*run)(void *context), void *context)
{
    struct piece *piece = &r->pieces[number];

    if (piece->state == RUN)
        record(r, piece, run, context);
    if (piece->state == RECORDED) {
        device_graph_launch(piece->graph, r->stream);
        return;
    }
    if (piece->state == NEW)
        piece->state = r->stream->device->can_capture ? RUN : PLAIN;
    run(context);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"
#include "run/checkpoint/directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct event {
    const char *name, *category;
    double begin, seconds;
};

struct trace {
    struct event *events;
    size_t count, room;
};

struct trace *trace_create(void)
{
    return calloc(1, sizeof(struct trace));
}

void trace_destroy(struct trace *trace)
{
    if (trace)
        free(trace->events);
    free(trace);
}

void trace_add(struct trace *trace, const char *name, const char *category, double begin,
               double seconds)
{
    if (trace->count == trace->room) {
        size_t room = trace->room ? 2 * trace->room : 4096;
        struct event *more = realloc(trace->events, room * sizeof(*more));

        if (!more)
            return;
        trace->events = more;
        trace->room = room;
    }
    trace->events[trace->count++] = (struct event){name, category, begin, seconds};
}

int trace_write(const struct trace *trace, const char *directory, int64_t iteration, int rank,
                struct error *err)
{
    char name[80], *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    int rc = -1;

    if (!stream)
        return error_set(err, "out of memory");
    fprintf(stream,
            "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":"
            "\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d, iteration %" PRId64 "\"}}",
            rank, rank, iteration);
    for (size_t i = 0; i < trace->count; i++) {
        const struct event *e = &trace->events[i];

        fprintf(stream,
                ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,"
                "\"pid\":%d,\"tid\":0}",
                e->name, e->category, 1e6 * e->begin, 1e6 * e->seconds, rank);
    }
    fprintf(stream, "\n]}\n");
    if (fclose(stream) != 0) {
        free(text);
        return error_set(err, "out of memory");
    }
    snprintf(name, sizeof(name), "trace-iteration-%" PRId64 "-rank-%d.json", iteration, rank);
    if (directory_prepare(directory, err) == 0)
        rc = directory_write(directory, name, text, size, err);
    free(text);
    return rc;
}

/* How far an import is: what it wrote, how fast, and how long it still takes. */
#ifndef MEGATRON_PROGRESS_H
#define MEGATRON_PROGRESS_H

#include <stddef.h>
#include "scratch.h"

struct progress {
    const char *draft;             /* the unfinished image */
    const struct scratch *scratch; /* where the layers were unpacked */
    double total, begun;           /* known once the image is being written */
    double unpacked, next_look;    /* until then: bytes of the layers, looked at now and then */
};

/* One line about the import that has run for 'elapsed' seconds and has said 'errors' so far. */
void progress_line(struct progress *progress, const char *errors, double elapsed, char *line,
                   size_t size);

/* "1.2 GB" */
void format_size(double bytes, char *text, size_t size);

#endif

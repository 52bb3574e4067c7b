/* Where the rank that prints puts the numbers of a run: standard output, an event file, lines of
 * JSON. */
#ifndef MEGATRON_OUTPUTS_H
#define MEGATRON_OUTPUTS_H

#include "append_file.h"
#include "arguments.h"
#include "log.h"

struct outputs {
    struct event_file *events;   /* NULL without --tensorboard-dir */
    struct append_file *metrics; /* NULL without --metrics-file */
    int warned;                  /* events or metrics could not be written */
};

/* Returns 0 or -1; outputs_close in both cases, and where all is zero. */
int outputs_open(struct outputs *outputs, const struct arguments *a, struct error *err);

/* Write what is still held; what is lost is said, and is no error. */
void outputs_close(struct outputs *outputs);

/* The steps since the last line. A full disk costs lines of events and metrics, not the run: it is
 * said once, and what is held is tried again with the next line. */
void outputs_steps(struct outputs *outputs, const struct log_line *line);

/* The mean loss of an evaluation at 'what', after 'iteration' steps. */
void outputs_evaluation(struct outputs *outputs, int64_t iteration, const char *what, double loss);

#endif

/* What a run says: log lines, event files for TensorBoard, lines of JSON. */
#ifndef MEGATRON_TRAIN_LOG_H
#define MEGATRON_TRAIN_LOG_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

/* Event files that TensorBoard reads: scalars by step. */
struct event_file;
struct event_file *event_file_create(const char *directory, struct error *err);
void event_file_scalar(struct event_file *file, const char *tag, int64_t step, double value);
/* Write out what is held back, and with 'close' end the file. Returns -1 if not all of it could be
 * written; a later flush tries again. */
int event_file_flush(struct event_file *file, struct error *err);
int event_file_close(struct event_file *file, struct error *err);

/* One log line, as Megatron prints it. */
struct log_line {
    int64_t iteration, total, consumed, batch_size;
    double milliseconds; /* per iteration */
    double teraflops;    /* per rank; below 0: not shown */
    double lr, loss, loss_scale, grad_norm;
    double params_norm; /* below 0: not shown */
    int64_t taken;      /* steps since the last line that were not skipped */
    int64_t skipped, nans;
    double eta; /* seconds to the end */
};

/* The line without newline, into 'buffer'. */
void log_line_format(const struct log_line *line, char *buffer, size_t size);

/* The same as an object of JSON. */
void log_line_json(const struct log_line *line, char *buffer, size_t size);

#endif

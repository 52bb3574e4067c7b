/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of one step as Chrome's trace events, which Perfetto and chrome://tracing show. */
#ifndef MEGATRON_TRACE_H
#define MEGATRON_TRACE_H

#include <stdint.h>
#include "lib/error.h"

struct trace;

/* NULL: out of memory. */
struct trace *trace_create(void);
void trace_destroy(struct trace *trace);

/* Add an operation; the texts must outlive the trace. Without memory, the rest is left out. */
void trace_add(struct trace *trace, const char *name, const char *category, double begin,
               double seconds);

/* Write DIRECTORY/trace-iteration-I-rank-R.json, whole or not at all. Returns 0 or -1. */
int trace_write(const struct trace *trace, const char *directory, int64_t iteration, int rank,
                struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The first lines of a run's log: version, time, host and command line, which `megatron report`
 * reads. */
#ifndef MEGATRON_START_LINES_H
#define MEGATRON_START_LINES_H

#include <stdio.h>

/* Print the lines; the process started 'ago' seconds ago. */
void start_lines_print(double ago, FILE *stream);

#endif

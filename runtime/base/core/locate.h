/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the data files that are installed with the program. */
#ifndef MEGATRON_LOCATE_H
#define MEGATRON_LOCATE_H

#include <stddef.h>
#include "lib/error.h"

/* Put the path of data file 'name' ("gpt2/vocab.json") into 'path': under share/megatron of the
 * tree the running program is installed in, in the build tree it was built in, or in the directory
 * named at configure time. Returns 0 or -1. */
int locate_data(const char *name, char *path, size_t size, struct error *err);

#endif

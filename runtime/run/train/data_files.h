/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of datasets in files: --data-args-path and --per-split-data-args-path. */
#ifndef MEGATRON_DATA_FILES_H
#define MEGATRON_DATA_FILES_H

#include "arguments.h"

/* Read the files that the options name into the lists of --data-path and --*-data-path. Returns 0,
 * or -1. The words belong to 'arguments'; data_files_clear frees them. */
int data_files_read(struct arguments *arguments, struct error *err);
void data_files_clear(struct arguments *arguments);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data extract`, behind `megatron data`. */
#ifndef MEGATRON_COMMAND_DATA_EXTRACT_H
#define MEGATRON_COMMAND_DATA_EXTRACT_H

#include "error.h"

/* Run it with the words behind "extract". Returns 0 or -1. */
int data_extract(int argc, const char *const *argv, struct error *err);
/* Its part of `megatron data --help`. */
void data_extract_help(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of the program: shared objects that are opened when needed, so that a missing library is
 * a clear message and not a loader error. */
#ifndef MEGATRON_MODULE_H
#define MEGATRON_MODULE_H

#include "error.h"

/* Open 'file' ("device_cuda.so") from $MEGATRON_LIBRARY_DIR, else from ../lib/megatron beside the
 * program, else from the installed directory, and return the address of 'symbol' in it. 'what'
 * tells in the error what the module is for ("training on GPUs"). It stays open until the process
 * ends.
 */
void *module_symbol(const char *file, const char *symbol, const char *what, struct error *err);

#endif

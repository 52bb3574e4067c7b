/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of the program: shared objects that are opened when needed, so that a missing library
 * results in a clear message and not in a loader error. */
#ifndef MEGATRON_MODULE_H
#define MEGATRON_MODULE_H

#include "lib/error.h"

/* Open 'file' ("device_cuda.so") from $MEGATRON_LIBRARY_DIR, else from ../lib/megatron relative to
 * the program, else from the installed directory, and return the address of 'symbol' in it. 'what'
 * is the module's purpose for the error ("training on GPUs"). It stays open until the process
 * exits. */
void *module_symbol(const char *file, const char *symbol, const char *what, struct error *err);

#endif

/* Parts of the program that are shared objects, opened when they are needed: a missing library is a
 * sentence, not a loader error. */
#ifndef MEGATRON_MODULE_H
#define MEGATRON_MODULE_H

#include "error.h"

/* Open 'file' ("device_cuda.so") from $MEGATRON_LIBRARY_DIR, else from ../lib/megatron beside the
 * program, else from the installed place, and return the address of 'symbol' in it. 'what' says in
 * the error what the part is for ("training on GPUs"). The part stays open until the process ends.
 */
void *module_symbol(const char *file, const char *symbol, const char *what, struct error *err);

#endif

/* A deadline on a call of a library that has none of its own. */
#ifndef MEGATRON_GUARD_H
#define MEGATRON_GUARD_H

#include "error.h"

struct guard;

/* From now on the process has 'seconds' to call guard_end; else it ends with exit code 1 after
 * printing "megatron: " and the sentence. Nothing milder is possible: the thread is inside the
 * library and does not come back. Returns NULL with 'err' set where no thread can be had. */
__attribute__((format(printf, 3, 4))) struct guard *guard_begin(double seconds, struct error *err,
                                                                const char *format, ...);

/* The call has come back. NULL is allowed. */
void guard_end(struct guard *guard);

#endif

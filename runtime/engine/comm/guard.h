/* SPDX-License-Identifier: Apache-2.0 */
/* A deadline for a library call that has none. */
#ifndef MEGATRON_GUARD_H
#define MEGATRON_GUARD_H

#include "lib/error.h"

struct guard;

/* Start a deadline: the process must call guard_end within 'seconds'. Otherwise it prints
 * "megatron: " and the formatted text and exits with code 1 (last_resort.h), since the calling
 * thread is inside the library and does not return. Returns NULL with 'err' set if no thread can be
 * started. */
__attribute__((format(printf, 3, 4))) struct guard *guard_begin(double seconds, struct error *err,
                                                                const char *format, ...);

/* The call has returned. NULL is allowed. */
void guard_end(struct guard *guard);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The stop flag: a request to end early, which a signal handler may set. Work in progress is undone
 * and fails with the text STOPPED. */
#ifndef MEGATRON_STOP_H
#define MEGATRON_STOP_H

#include <signal.h>
#include <stdbool.h>

typedef volatile sig_atomic_t stop_flag;

#define STOPPED "ended by a signal before it was done; run it again"

/* Is the flag set? A NULL 'flag' is never set. */
static inline bool is_stopped(const stop_flag *flag)
{
    return flag && *flag != 0;
}

#endif

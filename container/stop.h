/* A request to stop early, which a signal handler can make: work in progress is undone and fails
 * with STOPPED. */
#ifndef MEGATRON_STOP_H
#define MEGATRON_STOP_H

#include <signal.h>

typedef volatile sig_atomic_t stop_flag;

#define STOPPED "ended before it was done"

/* 'flag' may be NULL: then there is no way to stop. */
static inline int is_stopped(const stop_flag *flag)
{
    return flag && *flag;
}

#endif

/* Time that only moves forward. */
#ifndef MEGATRON_CLOCK_H
#define MEGATRON_CLOCK_H

#include <time.h>

/* Seconds since some moment in the past; only differences mean something. */
static inline double clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif

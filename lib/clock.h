/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock, which only moves forward, and the time of day. */
#ifndef MEGATRON_CLOCK_H
#define MEGATRON_CLOCK_H

#include <sys/random.h>
#include <time.h>

/* What clock 'id' shows, in seconds; for example the CPU time of a thread. */
static inline double clock_read(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds since an arbitrary time; only differences are meaningful. */
static inline double clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* The time of day: seconds since 1970, which may jump when the clock is set. */
static inline double clock_wall(void)
{
    return clock_read(CLOCK_REALTIME);
}

/* The time 'seconds' from now on clock 'id', for calls that wait until an absolute time.
 * pthread_cond_timedwait uses CLOCK_REALTIME unless the condition was created with another clock.
 */
static inline struct timespec clock_after(clockid_t id, double seconds)
{
    double whole = seconds < 1e9 ? seconds : 1e9;
    struct timespec t;

    clock_gettime(id, &t);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)(1e9 * (whole - (double)(time_t)whole));
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Sleep for 'seconds', less if a signal arrives. */
static inline void clock_sleep(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

/* Sleep for 'seconds' plus or minus a random amount of up to a quarter, so that processes that wait
 * for the same thing do not all retry at once. */
static inline void clock_sleep_about(double seconds)
{
    unsigned char chance = 128;

    if (getrandom(&chance, sizeof(chance), 0) < 0)
        chance = 128;
    clock_sleep(seconds * (0.75 + chance / 510.0));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"
#include "lib/clock.h"
#include "base/core/last_resort.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct guard {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct timespec until;
    int ended;
    char text[600];
};

static void *watch(void *argument)
{
    struct guard *guard = argument;
    int rc = 0;

    pthread_mutex_lock(&guard->lock);
    while (!guard->ended && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&guard->changed, &guard->lock, &guard->until);
    if (!guard->ended)
        last_resort(guard->text);
    pthread_mutex_unlock(&guard->lock);
    return NULL;
}

struct guard *guard_begin(double seconds, struct error *err, const char *format, ...)
{
    struct guard *guard = calloc(1, sizeof(*guard));
    pthread_condattr_t attributes;
    va_list args;
    int rc;

    if (!guard) {
        error_set(err, "out of memory");
        return NULL;
    }
    va_start(args, format);
    vsnprintf(guard->text, sizeof(guard->text), format, args);
    va_end(args);
    guard->until = clock_after(CLOCK_MONOTONIC, seconds);
    pthread_mutex_init(&guard->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&guard->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    rc = pthread_create(&guard->thread, NULL, watch, guard);
    if (rc == 0)
        return guard;
    error_set_errno(err, rc, "cannot start a thread");
    pthread_cond_destroy(&guard->changed);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
    return NULL;
}

void guard_end(struct guard *guard)
{
    if (!guard)
        return;
    pthread_mutex_lock(&guard->lock);
    guard->ended = 1;
    pthread_cond_signal(&guard->changed);
    pthread_mutex_unlock(&guard->lock);
    pthread_join(guard->thread, NULL);
    pthread_cond_destroy(&guard->changed);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/xmalloc.h"
#include "watch.h"
#include "lib/clock.h"
#include "base/core/last_resort.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Rank 0 terminates the others; if rank 0 is lost, the lowest remaining rank goes first. */
#define TURN_SECONDS  0.02
#define TURNS_SECONDS 5.0

struct watch {
    pthread_t thread;
    struct star *star;
    int rank;
    struct watch_options options;
    atomic_int ended;
};

/* Returns 0 if the watch is stopped meanwhile. */
static int pause_for(struct watch *watch, double seconds)
{
    double until = clock_now() + seconds;

    while (!atomic_load(&watch->ended) && clock_now() < until)
        clock_sleep(0.01);
    return !atomic_load(&watch->ended);
}

static double turn_of(const struct watch *watch, int news)
{
    double turn = watch->rank * TURN_SECONDS;

    if (news == STAR_TOLD)
        return watch->options.told;
    return turn < TURNS_SECONDS ? turn : TURNS_SECONDS;
}

static void *follow(void *argument)
{
    struct watch *watch = argument;
    struct error err;
    int news = 0;

    while (news == 0 && !atomic_load(&watch->ended))
        news = star_wait(watch->star, 1, &err);
    if (news == 0 || !pause_for(watch, turn_of(watch, news)))
        return NULL;
    watch->options.lost(watch->options.context, err.text);
    if (!pause_for(watch, watch->options.grace))
        return NULL;
    /* A call that waits for a lost rank may never return, and then main() cannot end the process.
     */
    last_resort(err.text);
}

struct watch *watch_begin(struct star *star, int rank, const struct watch_options *options,
                          struct error *err)
{
    struct watch *watch = xcalloc(1, sizeof(*watch));
    int rc;

    watch->star = star;
    watch->rank = rank;
    watch->options = *options;
    rc = pthread_create(&watch->thread, NULL, follow, watch);
    if (rc) {
        error_set_errno(err, rc, "cannot start a thread");
        free(watch);
        return NULL;
    }
    return watch;
}

void watch_end(struct watch *watch)
{
    if (!watch)
        return;
    atomic_store(&watch->ended, 1);
    star_wake(watch->star);
    pthread_join(watch->thread, NULL);
    free(watch);
}

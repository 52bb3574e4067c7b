/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "heartbeat.h"
#include "lib/clock.h"
#include "xmalloc.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct heartbeat {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop;
    struct lease *lease;
    double seconds;
};

static void *beat(void *argument)
{
    struct heartbeat *heartbeat = argument;

    pthread_mutex_lock(&heartbeat->mutex);
    while (!heartbeat->stop) {
        struct timespec until = clock_after(CLOCK_REALTIME, heartbeat->seconds);

        pthread_cond_timedwait(&heartbeat->wake, &heartbeat->mutex, &until);
        if (heartbeat->stop)
            break;
        pthread_mutex_unlock(&heartbeat->mutex);
        /* A lost lease is detected when it is released. */
        lease_beat(heartbeat->lease);
        pthread_mutex_lock(&heartbeat->mutex);
    }
    pthread_mutex_unlock(&heartbeat->mutex);
    return NULL;
}

struct heartbeat *heartbeat_begin(struct lease *lease, double seconds, struct error *err)
{
    struct heartbeat *heartbeat = xcalloc(1, sizeof(*heartbeat));
    int rc;

    heartbeat->lease = lease;
    heartbeat->seconds = seconds;
    pthread_mutex_init(&heartbeat->mutex, NULL);
    pthread_cond_init(&heartbeat->wake, NULL);
    rc = pthread_create(&heartbeat->thread, NULL, beat, heartbeat);
    if (rc == 0)
        return heartbeat;
    error_set_errno(err, rc, "cannot start a thread");
    pthread_cond_destroy(&heartbeat->wake);
    pthread_mutex_destroy(&heartbeat->mutex);
    free(heartbeat);
    return NULL;
}

void heartbeat_end(struct heartbeat *heartbeat)
{
    if (!heartbeat)
        return;
    pthread_mutex_lock(&heartbeat->mutex);
    heartbeat->stop = true;
    pthread_cond_signal(&heartbeat->wake);
    pthread_mutex_unlock(&heartbeat->mutex);
    pthread_join(heartbeat->thread, NULL);
    pthread_cond_destroy(&heartbeat->wake);
    pthread_mutex_destroy(&heartbeat->mutex);
    free(heartbeat);
}

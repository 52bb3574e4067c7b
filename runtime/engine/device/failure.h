/* SPDX-License-Identifier: Apache-2.0 */
/* The first failure of a device or of the communication between ranks. Any thread may record one;
 * from then on every wait returns it. */
#ifndef MEGATRON_FAILURE_H
#define MEGATRON_FAILURE_H

#include <pthread.h>
#include <stdbool.h>

#include "lib/error.h"

struct failure {
    pthread_mutex_t lock; /* protects the error; PTHREAD_MUTEX_INITIALIZER at first */
    bool recorded;
    struct error error;
};

/* Record a failure. False if there was one before, which is kept. */
static inline bool failure_record(struct failure *failure, const struct error *error)
{
    bool first;

    pthread_mutex_lock(&failure->lock);
    first = !failure->recorded;
    if (first)
        failure->error = *error;
    __atomic_store_n(&failure->recorded, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&failure->lock);
    return first;
}

static inline bool failure_exists(const struct failure *failure)
{
    return __atomic_load_n(&failure->recorded, __ATOMIC_ACQUIRE);
}

/* Return 0, or -1 with the failure in 'err', which may be NULL. */
static inline int failure_check(const struct failure *failure, struct error *err)
{
    if (!failure_exists(failure))
        return 0;
    if (err)
        *err = failure->error; /* it does not change any more */
    return -1;
}

#endif

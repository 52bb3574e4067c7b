/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of buffers. Batch number n uses slot n % slots; threads claim the numbers in order, fill
 * their slots in any order, and the caller gets them in order. */
#include "config.h"
#include "lib/clock.h"
#include "dataset_private.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

enum { MOST_THREADS = 16 };

enum slot_state { SLOT_FILLING, SLOT_READY, SLOT_FAILED };

struct slot {
    struct batch batch;
    struct error err;
    enum slot_state state;
};

struct batch_loader {
    struct batch_loader_config config;
    struct slot *slots;
    void **buffers;
    pthread_mutex_t mutex;
    pthread_cond_t filled, freed;
    pthread_t threads[MOST_THREADS];
    int thread_count, stop;
    int64_t to_fill, to_give, to_release; /* numbers of batches */
};

/* The first sample of batch 'number' for this rank. */
static int64_t first_sample(const struct batch_loader_config *config, int64_t number)
{
    return config->consumed + (number * config->ranks + config->rank) * config->micro_batch;
}

static void *fill(void *arg)
{
    struct batch_loader *loader = arg;
    int slots = loader->config.buffer_count;

    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        struct slot *slot;
        int64_t number;
        int status;

        while (!loader->stop && loader->to_fill >= loader->to_release + slots)
            pthread_cond_wait(&loader->freed, &loader->mutex);
        if (loader->stop)
            break;
        number = loader->to_fill++;
        slot = &loader->slots[number % slots];
        slot->state = SLOT_FILLING;
        pthread_mutex_unlock(&loader->mutex);
        status = dataset_batch(loader->config.dataset, first_sample(&loader->config, number),
                               loader->config.micro_batch, loader->buffers[number % slots],
                               &slot->batch, &slot->err);
        slot->batch.slot = (int)(number % slots);
        pthread_mutex_lock(&loader->mutex);
        slot->state = status < 0 ? SLOT_FAILED : SLOT_READY;
        pthread_cond_signal(&loader->filled);
        /* Batches after a failed one are never delivered. */
        if (status < 0)
            break;
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static struct batch_loader *new_loader(const struct batch_loader_config *config)
{
    struct batch_loader *loader = xcalloc(1, sizeof(*loader));
    size_t count = (size_t)config->buffer_count;
    pthread_condattr_t monotonic;

    loader->slots = xcalloc(count, sizeof(*loader->slots));
    loader->buffers = xcalloc(count, sizeof(*loader->buffers));
    loader->config = *config;
    memcpy(loader->buffers, config->buffers, count * sizeof(*loader->buffers));
    loader->config.buffers = loader->buffers;
    if (loader->config.deadline <= 0)
        loader->config.deadline = 600;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&loader->filled, &monotonic);
    pthread_cond_init(&loader->freed, NULL);
    pthread_condattr_destroy(&monotonic);
    return loader;
}

struct batch_loader *batch_loader_create(const struct batch_loader_config *config,
                                         struct error *err)
{
    struct batch_loader *loader;
    int threads = config->threads > 0 ? config->threads : 2;

    if (batch_size(config->micro_batch, config->dataset->sequence_length) == 0) {
        error_set(err,
                  "a micro-batch of %" PRId64 " sequences of length %" PRId64
                  " is too large for a batch buffer; lower --micro-batch-size or --seq-length",
                  config->micro_batch, config->dataset->sequence_length);
        return NULL;
    }
    loader = new_loader(config);
    for (int i = 0; i < threads && i < MOST_THREADS; i++) {
        int number = pthread_create(&loader->threads[i], NULL, fill, loader);

        if (number != 0 && i == 0) {
            error_set_errno(err, number, "cannot start the thread that loads data");
            batch_loader_destroy(loader);
            return NULL;
        }
        if (number != 0)
            break;
        loader->thread_count++;
    }
    return loader;
}

void batch_loader_destroy(struct batch_loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->stop = 1;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->mutex);
    for (int i = 0; i < loader->thread_count; i++)
        pthread_join(loader->threads[i], NULL);
    pthread_cond_destroy(&loader->filled);
    pthread_cond_destroy(&loader->freed);
    pthread_mutex_destroy(&loader->mutex);
    free(loader->slots);
    free(loader->buffers);
    free(loader);
}

/* Wait, with the mutex held, until batch 'number' is filled. Returns -1 at the deadline. */
static int wait_filled(struct batch_loader *loader, const struct slot *slot, int64_t number)
{
    struct timespec until = clock_after(CLOCK_MONOTONIC, loader->config.deadline);
    int late = 0;

    while ((loader->to_fill <= number || slot->state == SLOT_FILLING) && !late)
        late = pthread_cond_timedwait(&loader->filled, &loader->mutex, &until) == ETIMEDOUT;
    return loader->to_fill <= number || slot->state == SLOT_FILLING ? -1 : 0;
}

int batch_loader_next(struct batch_loader *loader, struct batch *batch, struct error *err)
{
    int slots = loader->config.buffer_count, status = 0;
    struct slot *slot;
    int64_t number;

    pthread_mutex_lock(&loader->mutex);
    number = loader->to_give;
    slot = &loader->slots[number % slots];
    if (number >= loader->to_release + slots)
        status = error_bug(err, "all %d buffers of the loader are in use", slots);
    else if ((loader->to_fill <= number || slot->state == SLOT_FILLING) &&
             wait_filled(loader, slot, number) < 0)
        status =
            error_set(err,
                      "sample %" PRId64 " was not read within %.0f s; check the file system of "
                      "the data",
                      first_sample(&loader->config, number), loader->config.deadline);
    else if (slot->state == SLOT_FAILED)
        status = error_set(err, "%s", slot->err.text);
    if (status == 0) {
        *batch = slot->batch;
        loader->to_give++;
    }
    pthread_mutex_unlock(&loader->mutex);
    return status;
}

void batch_loader_release(struct batch_loader *loader, const struct batch *batch)
{
    pthread_mutex_lock(&loader->mutex);
    if (loader->to_release < loader->to_give &&
        batch->slot == loader->to_release % loader->config.buffer_count) {
        loader->to_release++;
        pthread_cond_signal(&loader->freed);
    }
    pthread_mutex_unlock(&loader->mutex);
}

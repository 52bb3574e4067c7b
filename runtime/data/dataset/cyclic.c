/* SPDX-License-Identifier: Apache-2.0 */
#include "cyclic.h"
#include "mt19937.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/core/xmalloc.h"

struct cyclic {
    pthread_mutex_t mutex;
    int64_t micro_batch, ranks;
    int64_t batches; /* of all ranks together in an epoch; what is left over is not used */
    int64_t epoch;   /* that 'order' is of */
    uint32_t *order; /* of each rank's batches * micro_batch samples */
};

struct cyclic *cyclic_create(int64_t samples, int64_t micro_batch, int64_t ranks, struct error *err)
{
    int64_t batches = samples / (micro_batch * ranks);
    struct cyclic *c;

    if (batches < 1 || batches * micro_batch > UINT32_MAX / 20) {
        error_set_code(err, ERROR_USAGE,
                       "%" PRId64 " samples cannot be shuffled in epochs for %" PRId64
                       " data-parallel ranks; each needs 1 to %" PRIu32 " in whole micro-batches",
                       samples, ranks, UINT32_MAX / 20);
        return NULL;
    }
    c = xcalloc(1, sizeof(*c));
    c->order = xcalloc((size_t)(batches * micro_batch), sizeof(*c->order));
    pthread_mutex_init(&c->mutex, NULL);
    c->micro_batch = micro_batch;
    c->ranks = ranks;
    c->batches = batches;
    c->epoch = -1;
    return c;
}

void cyclic_destroy(struct cyclic *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->mutex);
    free(c->order);
    free(c);
}

/* torch.randperm with a generator seeded by the epoch. */
static void shuffle(struct cyclic *c, int64_t epoch)
{
    uint32_t count = (uint32_t)(c->batches * c->micro_batch);
    struct mt19937 rng;

    mt19937_seed(&rng, (uint32_t)epoch);
    for (uint32_t i = 0; i < count; i++)
        c->order[i] = i;
    for (uint32_t i = 0; i + 1 < count; i++) {
        uint32_t other = i + mt19937_next(&rng) % (count - i), kept = c->order[i];

        c->order[i] = c->order[other];
        c->order[other] = kept;
    }
    c->epoch = epoch;
}

int64_t cyclic_sample(struct cyclic *c, int64_t at)
{
    int64_t together = c->micro_batch * c->ranks, batch = at / together;
    int64_t rank = at % together / c->micro_batch, row = at % c->micro_batch, sample;
    int64_t epoch = batch / c->batches, own = batch % c->batches * c->micro_batch + row;

    pthread_mutex_lock(&c->mutex);
    if (c->epoch != epoch)
        shuffle(c, epoch);
    sample = rank * c->batches * c->micro_batch + c->order[own];
    pthread_mutex_unlock(&c->mutex);
    return sample;
}

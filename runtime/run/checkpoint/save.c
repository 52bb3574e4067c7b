/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_private.h"
#include "lib/clock.h"
#include "directory.h"
#include "base/core/half.h"
#include "scaling_file.h"
#include "shard_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Seconds. A shorter wait is not worth a warning. */
static const double WORTH_A_WARNING = 0.5;

/* --- The thread ------------------------------------------------------------------------------ */

/* Does the run have fp16 weights without master weights? The snapshot then holds them in the second
 * half of each bucket's part.
 */
static int has_half(const struct checkpoint *c)
{
    return !c->arrays.master && !c->arrays.host_master &&
           c->config.model->numerics.type == TYPE_FP16;
}

static int write_share(struct checkpoint *c, struct index_file *file, struct error *err)
{
    int64_t elements = c->parameters->shard_elements;
    const float *arrays[ARRAYS];
    char path[PATH_MAX];

    for (int i = 0; i < c->parameters->bucket_count && has_half(c); i++) {
        const struct bucket *b = &c->parameters->buckets[i];

        half_widen(c->snapshot + b->shard_first, bucket_shard(b, c->shard).count, half_to_float);
    }
    if (c->config.save_optimizer && c->arrays.moment1_type == TYPE_BF16)
        half_widen(c->snapshot + elements, elements, bfloat_to_float);
    if (c->config.save_optimizer && c->arrays.moment2_type == TYPE_BF16)
        half_widen(c->snapshot + 2 * elements, elements, bfloat_to_float);
    for (int i = 0; i < ARRAYS; i++)
        arrays[i] = c->snapshot + i * elements;
    if (directory_path(path, err, "%s/rank_%05d.safetensors", c->temporary,
                       c->parallel->comm->rank) < 0)
        return -1;
    return shard_file_write(path, c->parameters, &c->written, arrays, checkpoint_arrays_of(c), file,
                            &c->moved, err);
}

static int write_index(struct checkpoint *c, const struct index_scales *scales, struct error *err)
{
    struct checkpoint_index index;
    size_t size;
    char *text = NULL;
    int rc = index_create(&index, c->config.model, &c->parallel->layout, err);

    index.progress = c->progress;
    index.state = *c->state;
    index.rules = *c->config.rules;
    index.arrays = checkpoint_arrays_of(c);
    index.scales = *scales;
    for (int i = 0; i < index.file_count && rc == 0; i++) {
        const struct index_file *file = &c->files[i];

        if (file->elements != index.files[i].elements)
            rc = error_bug(err, "rank %d wrote %" PRId64 " elements, but %" PRId64 " were expected",
                           i, file->elements, index.files[i].elements);
        index.files[i].data = file->data;
        index.files[i].bytes = file->bytes;
        index.files[i].checksum = file->checksum;
    }
    if (rc == 0)
        text = index_write(&index, &size, err);
    rc = text ? directory_write(c->temporary, INDEX_NAME, text, size, err) : -1;
    free(text);
    index_clear(&index);
    return rc;
}

/* Record the duration: the next run in this directory derives from it how long before its end it
 * must save. */
static void write_seconds(const struct checkpoint *c)
{
    struct error ignored;
    char text[32];

    snprintf(text, sizeof(text), "%.3f\n", clock_now() - c->began);
    directory_write(c->config.save, SECONDS_NAME, text, strlen(text), &ignored);
}

static int commit(struct checkpoint *c, struct error *err)
{
    struct index_scales scales = {0};

    atomic_store(&c->committed, 0);
    c->abandoned[0] = '\0';
    if (c->scaling &&
        scaling_file_write(c->temporary, &c->scaling_rules, c->scaling, &scales, err) < 0)
        return -1;
    if (write_index(c, &scales, err) < 0)
        return -1;
    moved_count(&c->moved);
    /* Move abandoned checkpoints away before this save can replace one of them. */
    if (c->back_to >= 0 && directory_abandon(c->config.save, c->back_to, c->abandoned, err) < 0)
        return -1;
    c->back_to = -1;
    if (directory_commit(c->config.save, c->temporary, c->progress.iteration, &c->moved, err) < 0)
        return -1;
    /* The checkpoint is complete, whatever happens to the old ones. */
    atomic_store(&c->committed, 1);
    c->leftover.text[0] = '\0';
    if (c->config.keep_last > 0)
        directory_prune(c->config.save, c->config.keep_last, NULL, &c->moved, &c->leftover);
    write_seconds(c);
    return 0;
}

static void *run_thread(void *context)
{
    struct checkpoint *c = context;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        struct report mine = {0};
        struct error err;
        enum phase job;
        int rc;

        while (c->job == PHASE_NONE && !c->quit)
            pthread_cond_wait(&c->change, &c->lock);
        if (c->quit)
            break;
        job = c->job;
        pthread_mutex_unlock(&c->lock);
        rc = job == PHASE_WRITE ? write_share(c, &mine.file, &err) : commit(c, &err);
        mine.done = rc < 0 ? -1 : 1;
        pthread_mutex_lock(&c->lock);
        c->job = PHASE_NONE;
        c->mine = mine;
        if (rc < 0)
            c->failure = err;
        pthread_cond_broadcast(&c->change);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int checkpoint_start_thread(struct checkpoint *c, struct error *err)
{
    sigset_t all, before;
    int rc;

    /* Signals are handled by the training thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&c->thread, NULL, run_thread, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return error_set_errno(err, rc, "cannot start the checkpoint writer thread");
    c->has_thread = 1;
    return 0;
}

void checkpoint_end_thread(struct checkpoint *c)
{
    if (!c->has_thread)
        return;
    pthread_mutex_lock(&c->lock);
    c->quit = 1;
    pthread_cond_broadcast(&c->change);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    c->has_thread = 0;
}

static void give_job(struct checkpoint *c, enum phase job)
{
    pthread_mutex_lock(&c->lock);
    c->mine = (struct report){.done = job == PHASE_NONE};
    c->job = job;
    pthread_cond_broadcast(&c->change);
    pthread_mutex_unlock(&c->lock);
}

/* --- A save ---------------------------------------------------------------------------------- */

/* Copy the elements of an array, from host memory and from the device. 16-bit elements go to the
 * second half of the array's part of the snapshot. */
static void copy_array(const struct checkpoint *c, float *part, enum device_type type,
                       const void *here, const void *host)
{
    size_t elements = (size_t)c->parameters->shard_elements, size = type_size(type);
    size_t hosted = (size_t)c->arrays.hosted, rest = elements - hosted;
    char *to = (char *)part + elements * (sizeof(float) - size);

    if (hosted > 0)
        device_copy(c->stream, to, host, hosted * size, COPY_ON_HOST);
    if (rest > 0)
        device_copy(c->stream, to + hosted * size, here, rest * size, COPY_TO_HOST);
}

/* Copy this rank's shard to host memory, after all work submitted so far. Weights and optimizer
 * state do not change until the next update, so the copies overlap with the next step's passes; the
 * step's counters change before that, so their few bytes are copied in the model's stream. Weights
 * that other ranks are still sending are not part of this shard. State that is offloaded to host
 * memory is copied by a thread of the device, in the same order. */
static void take_snapshot(struct checkpoint *c)
{
    const struct model_facts model = model_facts(c->model);
    struct device_stream *stream = c->stream;
    const struct parameters *p = c->parameters;

    device_copy(model.stream, c->state, model.state, sizeof(*c->state), COPY_TO_HOST);
    if (c->scaling)
        device_copy(model.stream, c->scaling, model.scaling,
                    (size_t)fp8_layers_kept(&c->scaling_rules) * sizeof(float), COPY_TO_HOST);
    device_event_record(c->stepped, model.stream);
    device_event_follow(stream, c->stepped);
    for (int i = 0; i < p->bucket_count && !c->arrays.master; i++) {
        const struct bucket *b = &p->buckets[i];
        struct range mine = bucket_shard(b, c->shard);
        size_t size = type_size(c->config.model->numerics.type);

        /* 16-bit weights: see has_half. */
        device_copy(stream,
                    (char *)(c->snapshot + b->shard_first) +
                        (size_t)mine.count * (sizeof(float) - size),
                    (const char *)model.weights + (size_t)mine.first * size,
                    (size_t)mine.count * size, COPY_TO_HOST);
    }
    if (c->arrays.master)
        copy_array(c, c->snapshot, TYPE_FP32, c->arrays.master, c->arrays.host_master);
    if (c->config.save_optimizer) {
        copy_array(c, c->snapshot + p->shard_elements, c->arrays.moment1_type, c->arrays.moment1,
                   c->arrays.host_moment1);
        copy_array(c, c->snapshot + 2 * p->shard_elements, c->arrays.moment2_type,
                   c->arrays.moment2, c->arrays.host_moment2);
    }
    device_event_record(c->copied, stream);
}

struct device_event *checkpoint_copied(const struct checkpoint *c)
{
    return c->copied;
}

/* Wait for the copies. If they exceed the deadline they may continue afterwards. */
static int wait_for_copies(struct checkpoint *c, struct error *err)
{
    int rc = device_event_wait(c->copied, c->parallel->comm->deadline, err);

    c->stuck = rc < 0 && !device_event_done(c->copied);
    return rc;
}

int checkpoint_end_copies(struct checkpoint *c)
{
    struct error ignored;

    if (c->copying)
        wait_for_copies(c, &ignored);
    return c->stuck ? -1 : 0;
}

/* Let the thread write as soon as the snapshot is complete. Only the caller's thread may use the
 * device. */
static int start_write(struct checkpoint *c, int wait, struct error *err)
{
    if (!c->copying)
        return 0;
    if (wait && wait_for_copies(c, err) < 0)
        return -1;
    if (!wait && !device_event_done(c->copied))
        return 0;
    c->copying = 0;
    give_job(c, PHASE_WRITE);
    return 0;
}

/* The temporary directory: the leader names and creates it. */
static int make_temporary(struct checkpoint *c, struct error *err)
{
    int64_t token = (int64_t)getpid() << 24 ^ (int64_t)time(NULL);

    if (checkpoint_from_leader(c, &token, err) < 0 ||
        directory_path(c->temporary, err, "%s/iter_%07" PRId64 ".tmp-%" PRIx64, c->config.save,
                       c->progress.iteration, token) < 0)
        return -1;
    if (c->leads && mkdir(c->temporary, 0777) < 0)
        return error_set_errno(err, errno, "cannot create %s", c->temporary);
    return 0;
}

static void end_failed(struct checkpoint *c, const struct error *why)
{
    struct error ignored;

    c->phase = PHASE_NONE;
    c->failed = 1;
    if (!c->leads)
        return;
    directory_remove(c->temporary, NULL, &ignored);
    checkpoint_warn(c,
                    "cannot save a checkpoint at iteration %" PRId64 ": %s; training continues%s",
                    c->progress.iteration, why->text,
                    c->saved >= 0 ? ", and the previous checkpoint is kept" : "");
}

/* Wait for the save in progress: there is no memory for a second copy. If saves take longer than
 * the steps between them, they slow down the run. */
static int wait_for_last(struct checkpoint *c, int64_t iteration, struct error *err)
{
    int64_t last = c->progress.iteration, steps = iteration - last;
    double began = clock_now(), waited, step;

    if (c->phase == PHASE_NONE)
        return 0;
    if (checkpoint_wait(c, err) < 0)
        return -1;
    waited = clock_now() - began;
    step = steps > 0 ? (began - c->began) / (double)steps : 0;
    if (c->warned || c->failed || step <= 0 || waited < step || waited < WORTH_A_WARNING)
        return 0;
    c->warned = 1;
    checkpoint_warn(
        c,
        "training waited %.1f s at iteration %" PRId64 " for the checkpoint of iteration %" PRId64
        ", which took %.1f s to write; saving every %.0f iterations would avoid this; %s",
        waited, iteration, last, began + waited - c->began,
        ceil((began + waited - c->began) / step), "raise --save-interval, or use a faster disk");
    return 0;
}

int checkpoint_save(struct checkpoint *c, const struct progress *progress, struct error *err)
{
    struct error why;
    int rc;

    if (wait_for_last(c, progress->iteration, err) < 0)
        return -1;
    c->progress = *progress;
    c->began = clock_now();
    rc = checkpoint_agree(c, make_temporary(c, &why), &why);
    if (comm_check(c->parallel->comm, err) < 0)
        return -1;
    if (rc < 0) {
        end_failed(c, &why);
        return 0;
    }
    checkpoint_say(c, "saving checkpoint at iteration %7" PRId64 " to %s", progress->iteration,
                   c->config.save);
    take_snapshot(c);
    c->phase = PHASE_WRITE;
    c->copying = 1;
    if (start_write(c, !c->config.async, err) < 0)
        return -1;
    c->stalled = clock_now() - c->began;
    return c->config.async ? 0 : checkpoint_wait(c, err);
}

/* The result of this rank's thread; waits up to a second if requested. */
static struct report report_of(struct checkpoint *c, int wait)
{
    struct report report;
    struct timespec until = clock_after(CLOCK_REALTIME, 1);

    pthread_mutex_lock(&c->lock);
    while (wait && c->mine.done == 0 && pthread_cond_timedwait(&c->change, &c->lock, &until) == 0)
        ;
    report = c->mine;
    pthread_mutex_unlock(&c->lock);
    return report;
}

static void end_saved(struct checkpoint *c)
{
    double seconds = clock_now() - c->began;

    c->phase = PHASE_NONE;
    c->failed = 0;
    c->saved = c->progress.iteration;
    c->seconds = seconds > c->seconds ? seconds : c->seconds;
    checkpoint_say(c,
                   "  successfully saved checkpoint from iteration %7" PRId64
                   " to %s (%.3f s, of which the copy took %.3f s)",
                   c->progress.iteration, c->config.save, seconds, c->stalled);
    if (c->abandoned[0])
        checkpoint_say(c,
                       "  the checkpoints after the one that the run went back to were moved to "
                       "%s; remove them when they are no longer needed",
                       c->abandoned);
    if (c->leftover.text[0])
        checkpoint_warn(c, "cannot remove old checkpoints: %s", c->leftover.text);
}

/* Check the threads of all ranks once. */
static int advance(struct checkpoint *c, int wait, struct error *err)
{
    struct comm *comm = c->parallel->comm;
    struct report mine = {0};
    int64_t busy;
    struct error why;

    if (start_write(c, wait, err) < 0)
        return -1;
    if (!c->copying)
        mine = report_of(c, wait);
    busy = mine.done == 0;
    if (comm_host_max(comm, &busy, 1, err) < 0)
        return -1;
    if (busy)
        return 0;
    why = c->failure;
    if (checkpoint_agree(c, mine.done < 0 ? -1 : 0, &why) < 0) {
        if (comm_check(comm, err) < 0)
            return -1;
        end_failed(c, &why);
    } else if (c->phase == PHASE_WRITE) {
        if (comm_host_collect(comm, &mine.file, c->files, sizeof(mine.file), comm->size - 1, err) <
            0)
            return -1;
        c->phase = PHASE_COMMIT;
        give_job(c, c->leads ? PHASE_COMMIT : PHASE_NONE);
    } else {
        end_saved(c);
    }
    return 0;
}

int checkpoint_step(struct checkpoint *c, struct error *err)
{
    return start_write(c, 0, err);
}

int checkpoint_poll(struct checkpoint *c, struct error *err)
{
    return c->phase == PHASE_NONE ? 0 : advance(c, 0, err);
}

/* The thread makes no progress: give up. */
static int give_up(struct checkpoint *c, enum phase job, double seconds, struct error *err)
{
    const char *remedy = "check its file system, or raise --distributed-timeout-minutes";
    int rank = c->parallel->comm->rank;
    int64_t iteration = c->progress.iteration;

    c->stuck = 1;
    if (job == PHASE_WRITE)
        return error_set_code(err, ERROR_RANK,
                              "rank %d has made no progress writing checkpoint %" PRId64
                              " for %.0f s: %s/rank_%05d.safetensors; %s",
                              rank, iteration, seconds, c->temporary, rank, remedy);
    if (!atomic_load(&c->committed))
        return error_set_code(err, ERROR_RANK,
                              "rank %d has made no progress renaming checkpoint %" PRId64
                              " for %.0f s: %s; %s",
                              rank, iteration, seconds, c->temporary, remedy);
    return error_set_code(err, ERROR_RANK,
                          "rank %d has made no progress removing old checkpoints in %s for %.0f s; "
                          "checkpoint %" PRId64 " is saved; %s",
                          rank, c->config.save, seconds, iteration, remedy);
}

/* A save may take long, but no wait without progress exceeds the deadline. */
static int check_moves(struct checkpoint *c, struct error *err)
{
    int64_t moved = atomic_load(&c->moved);
    double now = clock_now();
    enum phase job;

    pthread_mutex_lock(&c->lock);
    job = c->job;
    pthread_mutex_unlock(&c->lock);
    if (job == PHASE_NONE || moved != c->seen) {
        c->seen = moved;
        c->seen_at = now;
    }
    if (now - c->seen_at < c->parallel->comm->deadline)
        return 0;
    return give_up(c, job, now - c->seen_at, err);
}

int checkpoint_wait(struct checkpoint *c, struct error *err)
{
    c->seen_at = clock_now();
    while (c->phase != PHASE_NONE)
        if (advance(c, 1, err) < 0 || check_moves(c, err) < 0)
            return -1;
    return 0;
}

int64_t checkpoint_saved(const struct checkpoint *c)
{
    return c->saved;
}

int checkpoint_failed(const struct checkpoint *c)
{
    return c->failed;
}

double checkpoint_seconds(const struct checkpoint *c)
{
    return c->saved >= 0 ? c->seconds : c->expected;
}

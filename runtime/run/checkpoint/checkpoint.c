/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_private.h"
#include "base/core/xmalloc.h"
#include "directory.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- Set-up ---------------------------------------------------------------------------------- */

/* Seconds that the last save in this directory took; 0 if unknown. */
static double read_seconds(const char *directory)
{
    char path[PATH_MAX];
    double seconds = 0;
    FILE *file;

    if (directory_path(path, NULL, "%s/" SECONDS_NAME, directory) < 0)
        return 0;
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &seconds) != 1 || !(seconds > 0 && seconds < 1e6))
        seconds = 0;
    fclose(file);
    return seconds;
}

/* The leader locks the directory for this run. */
static int take_directory(struct checkpoint *c, struct error *err)
{
    struct error leftover, unlocked;

    if (!c->leads)
        return 0;
    if (directory_prepare(c->config.save, err) < 0)
        return -1;
    c->held = directory_lock(c->config.save, &unlocked, err);
    if (c->held < 0)
        return -1;
    if (directory_restore(c->config.save, err) < 0)
        return -1;
    c->expected = read_seconds(c->config.save);
    if (unlocked.text[0])
        checkpoint_warn(
            c,
            "%s: another run that saves there would not be noticed, and files of unfinished saves "
            "are kept because they may belong to it; mount the file system with locking (flock)",
            unlocked.text);
    else if (directory_clean(c->config.save, &leftover) < 0)
        checkpoint_warn(c, "cannot remove files of an unfinished save: %s", leftover.text);
    return 0;
}

/* Do all ranks see what the leader creates there? The file system must be shared. */
static int check_shared(struct checkpoint *c, struct error *err)
{
    int64_t token = (int64_t)getpid() << 24 ^ (int64_t)time(NULL);
    char path[PATH_MAX];
    int rc;

    if (checkpoint_from_leader(c, &token, err) < 0)
        return -1;
    rc = directory_path(path, err, "%s/.shared-%" PRIx64, c->config.save, token);
    if (rc == 0 && c->leads && mkdir(path, 0777) < 0)
        rc = error_set_errno(err, errno, "cannot write to %s", c->config.save);
    rc = checkpoint_agree(c, rc, err);
    if (rc == 0 && access(path, W_OK | X_OK) < 0) {
        error_set_errno(err, errno, "rank %d cannot write to %s, unlike other ranks",
                        c->parallel->comm->rank, c->config.save);
        rc = error_append(err, "; it must be on a file system that all nodes share");
    }
    rc = checkpoint_agree(c, rc, err);
    if (c->leads)
        rmdir(path);
    return rc;
}

static int check_directory(struct checkpoint *c, struct error *err)
{
    int rc = checkpoint_agree(c, take_directory(c, err), err);

    if (rc == 0)
        rc = check_shared(c, err);
    if (rc == 0)
        return 0;
    error_prefix(err, "cannot save checkpoints");
    return error_append(err, "; choose another directory with --save");
}

static int create_save(struct checkpoint *c, struct error *err)
{
    size_t elements = (size_t)(c->parameters->shard_elements * checkpoint_arrays_of(c));

    if (check_directory(c, err) < 0)
        return -1;
    pieces_create(&c->written, c->parameters, &c->parallel->at, c->shard, PIECES_WRITTEN);
    c->stream = device_stream_create(c->device, 0);
    c->stepped = device_event_create(c->device, 0);
    c->copied = device_event_create(c->device, 0);
    c->snapshot = device_host_allocate(c->device, elements * sizeof(float), err);
    c->state = device_host_allocate(c->device, sizeof(*c->state), err);
    c->files = xcalloc((size_t)c->parallel->comm->size, sizeof(*c->files));
    if (!c->snapshot || !c->state)
        return error_set(err,
                         "saving checkpoints: %.1f MiB of host memory are needed: out of memory",
                         (double)elements * 4 / (1 << 20));
    /* Touching memory for the first time is slow; no training step should wait for that. */
    memset(c->snapshot, 0, elements * sizeof(float));
    /* If RLIMIT_FSIZE is exceeded, the write fails with an error instead of killing the process. */
    signal(SIGXFSZ, SIG_IGN);
    return checkpoint_start_thread(c, err);
}

/* Host memory for the scaling state of fp8, if the model has one. */
static int create_scaling(struct checkpoint *c, struct error *err)
{
    c->scaling_rules = model_facts(c->model).scaling_rules;
    if (!model_facts(c->model).scaling)
        return 0;
    c->scaling = device_host_allocate(
        c->device, (size_t)fp8_layers_kept(&c->scaling_rules) * sizeof(float), err);
    return c->scaling ? 0 : -1;
}

struct checkpoint *checkpoint_create(const struct checkpoint_config *config, struct model *model,
                                     const struct parallel *parallel, struct device *device,
                                     const struct checkpoint_arrays *arrays, struct error *err)
{
    struct checkpoint *c = xcalloc(1, sizeof(*c));

    c->config = *config;
    c->model = model;
    c->parallel = parallel;
    c->device = device;
    c->arrays = *arrays;
    c->parameters = model_facts(model).parameters;
    c->shard = shard_number(&parallel->layout, &parallel->at);
    c->leads = parallel->comm->rank == parallel->comm->size - 1;
    c->saved = c->back_to = -1;
    c->held = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->change, NULL);
    if (create_scaling(c, err) < 0 || (config->save && create_save(c, err) < 0)) {
        checkpoint_destroy(c);
        return NULL;
    }
    return c;
}

void checkpoint_destroy(struct checkpoint *c)
{
    /* A stuck thread ends with the process. */
    if (!c || c->stuck || checkpoint_end_copies(c) < 0)
        return;
    checkpoint_end_thread(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->change);
    pieces_destroy(&c->written);
    device_host_release(c->device, c->snapshot);
    device_host_release(c->device, c->state);
    device_host_release(c->device, c->scaling);
    device_event_destroy(c->stepped);
    device_event_destroy(c->copied);
    device_stream_destroy(c->stream);
    if (c->held >= 0)
        close(c->held);
    free(c->files);
    free(c);
}

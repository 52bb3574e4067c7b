/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank measures on its own. Pairs of nodes (pairs.c) and collectives (fabric.c) come after.
 */
#include "config.h"
#include "preflight_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/file.h"
#include "base/core/xmalloc.h"
#include "base/core/storage.h"

enum { DISK_BYTES = 8 << 20 };

/* GPUs lower their clocks and raise their links under load: look at them meanwhile. */
static void *sample_gpus(void *context)
{
    struct run *run = context;

    while (!atomic_load(&run->stop)) {
        for (int i = 0; i < run->facts.node.gpu_count; i++)
            nvml_gpus_sample(run->nvml, i, &run->measures.gpu[i]);
        clock_sleep(0.1);
    }
    return NULL;
}

static void start_sampling(struct run *run)
{
    if (!run->nvml)
        return;
    memcpy(run->measures.gpu, run->facts.node.gpu, sizeof(run->measures.gpu));
    run->sampling = pthread_create(&run->sampler, NULL, sample_gpus, run) == 0;
}

static void stop_sampling(struct run *run)
{
    if (run->sampling) {
        atomic_store(&run->stop, 1);
        pthread_join(run->sampler, NULL);
    }
    run->sampling = 0;
    /* Errors that the load brought to light. */
    for (int i = 0; run->nvml && i < run->facts.node.gpu_count; i++) {
        struct gpu_state now, *seen = &run->measures.gpu[i];

        if (nvml_gpus_read(run->nvml, i, &now) < 0)
            continue;
        seen->uncorrected = now.uncorrected;
        seen->rows_pending = now.rows_pending;
        seen->rows_spent = now.rows_spent;
        seen->links_up = now.links_up;
        seen->links_down = now.links_down;
        seen->link_errors = now.link_errors;
    }
}

static void measure_device(struct run *run)
{
    struct measures *m = &run->measures;
    int full = run->options->full;
    struct device_memory memory;
    struct error err = {0};
    size_t bytes, tested = 0;
    int rc = 0;

    if (!run->layer)
        return;
    rc = layer_run(run->layer, full ? 5 : 1, &m->layer, &err);
    if (rc == 0 && run->facts.gpu_index >= 0) {
        rc = layer_test_copies(run->layer, &m->copy_rate, &err);
        if (rc == 0 && device_memory(run->device, &memory, &err) == 0) {
            /* Several GiB of a GPU are enough to hit a bad bank; the full form takes them all. */
            bytes = full ? memory.available / 10 * 9 : (size_t)8 << 30;
            if (bytes > memory.available / 10 * 9)
                bytes = memory.available / 10 * 9;
            rc = layer_test_memory(run->layer, bytes, &m->wrong_blocks, &tested, &err);
            m->tested_bytes = (double)tested;
        }
    }
    if (rc < 0)
        snprintf(m->trouble, sizeof(m->trouble), "%s", err.text);
}

/* A new file in the scratch directory; 'path' gets its name. Returns its descriptor or -1. */
static int create_scratch(const char *directory, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s/.megatron-preflight.XXXXXX", directory) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkostemp(path, O_CLOEXEC);
}

int preflight_try_scratch(const char *directory)
{
    char path[PATH_MAX];
    int fd = create_scratch(directory, path);

    if (fd < 0)
        return errno;
    unlink(path);
    close(fd);
    return 0;
}

/* Free space, and the rate of a write that reaches the disk. */
static void measure_disk(struct run *run)
{
    struct measures *m = &run->measures;
    char path[PATH_MAX], *data = xcalloc(1, DISK_BYTES);
    double begin;
    int fd;

    m->disk_free = file_free_space(run->options->scratch);
    fd = create_scratch(run->options->scratch, path);
    if (fd >= 0) {
        begin = clock_now();
        if (file_write_at(fd, data, DISK_BYTES, 0) == 0 && fsync(fd) == 0)
            m->disk_rate = DISK_BYTES / (clock_now() - begin);
        unlink(path);
        close(fd);
    }
    free(data);
}

/* A file system may show a new file late. */
static void look_for_file(struct run *run)
{
    const char *path = run->order.shared_file;
    double until = clock_now() + 3;

    run->measures.sees_files = -1;
    if (!path[0])
        return;
    do {
        file_refresh_directory(run->options->shared);
        run->measures.sees_files = access(path, F_OK) == 0;
        if (!run->measures.sees_files)
            clock_sleep(0.1);
    } while (!run->measures.sees_files && clock_now() < until);
}

void preflight_measure(struct run *run)
{
    if (run->facts.leads)
        start_sampling(run);
    processor_measure(&run->measures.processor, run->options->full ? 3 : 1);
    measure_device(run);
    if (run->facts.leads) {
        stop_sampling(run);
        measure_disk(run);
    }
    look_for_file(run);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"
#include "lib/clock.h"
#include "container/enroot.h"
#include "lib/file.h"
#include "lib/lease.h"
#include "base/core/log.h"
#include "container/process.h"
#include "progress.h"
#include "container/scratch.h"
#include "space.h"
#include "container/squashfs.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONTAINER_ID_SIZE = 65, REMOVE_SECONDS = 60 };

/* An import in progress. */
struct work {
    const struct image_request *request;
    struct lease lease;
    struct scratch scratch;
    char draft[4096], name[IMAGE_KEY_SIZE + OWNER_SIZE + 8]; /* its path and its name */
    struct process_result result;
    struct download download;
    struct progress progress;
    char container[CONTAINER_ID_SIZE]; /* the container that Enroot created in podman for the
                                          export */
    double said;
    int lost; /* another process assumed that this import was dead, and took its lease */
};

/* --- The import itself ------------------------------------------------------------------------ */

/* Show waiting processes, and those that sweep, that this one is alive. Returns 0, or -1 if the
 * lease is lost. */
static int show_life(struct work *work)
{
    image_beat(work->request);
    utimensat(AT_FDCWD, work->draft, NULL, AT_SYMLINK_NOFOLLOW);
    return lease_beat(&work->lease);
}

static int keep_lease(void *argument, double elapsed)
{
    struct work *work = argument;

    (void)elapsed;
    work->lost = show_life(work) < 0;
    return work->lost ? -1 : 0;
}

static int on_tick(void *argument, double elapsed)
{
    struct work *work = argument;
    char line[512];

    if (keep_lease(work, elapsed) < 0)
        return -1;
    if (elapsed - work->said < PROGRESS_SECONDS)
        return 0;
    work->said = elapsed;
    progress_line(&work->progress, work->result.errors, elapsed, line, sizeof(line));
    image_say(work->request, "importing %s: %s", work->request->reference->text, line);
    return 0;
}

/* A query through Enroot. A slow registry may take longer to answer than a lease lasts without a
 * heartbeat. */
static struct enroot_call call_of(struct work *work)
{
    return (struct enroot_call){.path = work->request->path,
                                .environment = work->request->environment,
                                .tick = keep_lease,
                                .argument = work,
                                .stop = work->request->stop};
}

/* Only a registry's images go through Enroot's layer cache. */
static struct import_places places_of(const struct work *work)
{
    int pulls = work->request->reference->scheme == IMAGE_DOCKER && work->progress.download;

    return (struct import_places){.temporary = work->request->temporary,
                                  .layers = pulls ? work->download.cache : NULL};
}

/* The id that `podman create` prints. Of several such lines the last one is the container's. */
static void on_line(void *argument, const char *line)
{
    struct work *work = argument;

    if (strspn(line, "0123456789abcdef") == CONTAINER_ID_SIZE - 1 &&
        line[CONTAINER_ID_SIZE - 1] == '\0')
        snprintf(work->container, sizeof(work->container), "%s", line);
}

static int is_whole(const char *draft)
{
    int fd = open(draft, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), whole;

    if (fd < 0)
        return 0;
    whole = squashfs_check(fd, draft, NULL, NULL) == 0;
    close(fd);
    return whole;
}

/* Enroot 4.1 removes the container that it created in podman by calling docker, which does not know
 * it: remove it here, whether the import succeeded or not. */
static void remove_container(struct work *work)
{
    const struct image_request *request = work->request;
    const char *const argv[] = {"podman", "rm", "-f", "-v", work->container, NULL};
    const struct process_request process = {.argv = argv,
                                            .environment = request->environment,
                                            .path = request->path,
                                            .timeout = REMOVE_SECONDS,
                                            .tick = keep_lease,
                                            .argument = work};
    struct process_result result;
    struct error ignored;

    if (request->reference->scheme == IMAGE_PODMAN && work->container[0])
        process_run(&process, &result, &ignored);
}

/* Without docker, Enroot cannot remove the container and reports failure although the import is
 * complete. mksquashfs writes the superblock last, so an image that has one is complete. */
static int succeeded(const struct work *work)
{
    if (work->result.status == 0)
        return 1;
    return work->request->reference->scheme == IMAGE_PODMAN &&
           !strstr(work->result.errors, "[ERROR]") && is_whole(work->draft);
}

static int say_lost(const struct image_request *request, struct error *err)
{
    return error_set(err, "another process took over the import of %.500s; run the command again",
                     request->reference->text);
}

static int run_import(struct work *work, struct error *err)
{
    const struct image_request *request = work->request;
    const char *text = request->reference->text, *architecture = request->architecture;
    const char *const argv[] = {
        "enroot",     "import", "-o", work->draft, architecture ? "--arch" : text,
        architecture, text,     NULL};
    char temporary[2100], runtime[2100], processors[64], what[IMAGE_TEXT_SIZE + 16];
    const char *settings[] = {temporary, runtime, processors, NULL};
    struct process_request process = {.argv = argv,
                                      .path = request->path,
                                      .timeout = request->timeout,
                                      .tick = on_tick,
                                      .line = on_line,
                                      .argument = work,
                                      .stop = request->stop};
    const struct import_places places = places_of(work);
    const char **environment;
    int rc;

    snprintf(temporary, sizeof(temporary), "ENROOT_TEMP_PATH=%s", work->scratch.path);
    snprintf(runtime, sizeof(runtime), "ENROOT_RUNTIME_PATH=%s/run", work->scratch.path);
    snprintf(processors, sizeof(processors), "ENROOT_MAX_PROCESSORS=%d", request->processors);
    environment = enroot_environment(request->environment, settings);
    if (!environment)
        return error_set(err, "out of memory");
    process.environment = environment;
    rc = process_run(&process, &work->result, err);
    free(environment);
    remove_container(work);
    snprintf(what, sizeof(what), "import of %.500s", request->reference->text);
    if (rc < 0)
        return -1;
    if (is_stopped(request->stop))
        return error_set(err, STOPPED);
    if (work->lost)
        return say_lost(request, err);
    if (work->result.timed_out)
        return error_set(err, "%s took longer than %.0f seconds; %s", what, request->timeout,
                         request->timeout_remedy);
    if (succeeded(work))
        return 0;
    enroot_explain(what, work->result.status, work->result.errors, err);
    import_explain_space(request, &places, work->result.errors, work->progress.total, err);
    return -1;
}

/* Only the holder of a key's lease may touch its drafts. */
static void remove_drafts(const struct image_request *request, const char *key)
{
    char drafts[IMAGE_KEY_SIZE + 16];
    const char *const patterns[] = {drafts, NULL};

    snprintf(drafts, sizeof(drafts), "%s@%%o.draft", key);
    image_cache_remove(request->cache, "work", patterns, -1);
}

/* In the child: publish, and send the error's text ("" for none) to the parent. */
static void publish_child(struct work *work, const char *key, int answer)
{
    const struct image_request *request = work->request;
    struct error trouble = {.text = ""};
    char path[4096];

    image_cache_publish(request->cache, key, work->name, request->reference->text, NULL, path,
                        sizeof(path), &trouble);
    _exit(write(answer, trouble.text, sizeof(trouble.text)) < 0);
}

static void say_sum(const struct work *work, pid_t child, double elapsed)
{
    const struct image_request *request = work->request;
    struct stat info;
    char line[256];

    if (stat(work->draft, &info) < 0)
        return;
    progress_of_sum(child, (double)info.st_size, elapsed, line, sizeof(line));
    image_say(request, "importing %s: checksum: %s", request->reference->text, line);
}

/* The checksum and fsync of a large image take minutes, during which the heartbeat must continue: a
 * child does them. */
static int publish(struct work *work, const char *key, char *path, size_t size, struct error *err)
{
    const struct image_request *request = work->request;
    struct pollfd answer = {.events = POLLIN};
    struct error said = {.text = ""};
    double begun = clock_now(), spoke = begun;
    int ends[2];
    pid_t parent = getpid(), child;
    ssize_t got;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(err, errno, "cannot store the image in the cache %.300s",
                               request->cache->directory);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            publish_child(work, key, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    if (child < 0) {
        error_set_errno(err, errno, "cannot store the image in the cache %.300s",
                        request->cache->directory);
        close(ends[0]);
        return -1;
    }
    answer.fd = ends[0];
    while (poll(&answer, 1, 1000) <= 0) {
        /* A lost lease does no harm here: publishing is a rename. */
        (void)show_life(work);
        if (is_stopped(request->stop))
            kill(child, SIGKILL);
        if (clock_now() - spoke < PROGRESS_SECONDS)
            continue;
        spoke = clock_now();
        say_sum(work, child, spoke - begun);
    }
    got = read(ends[0], said.text, sizeof(said.text));
    close(ends[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    if (got != sizeof(said.text))
        return error_set(err, is_stopped(request->stop)
                                  ? STOPPED
                                  : "the process that stores the image in the cache was killed; it "
                                    "probably ran out of memory: raise the memory limit of the job "
                                    "(sbatch --mem)");
    if (said.text[0])
        return error_set(err, "%s", said.text);
    switch (image_cache_find(request->cache, key, path, size, err)) {
    case 1:
        return 0;
    case 0:
        return error_set(err, "another process removed the image right after it was imported; "
                              "try again");
    default:
        return -1;
    }
}

static void prepare_progress(struct work *work)
{
    const struct enroot_call call = call_of(work);
    char info[ENROOT_INFO_SIZE], options[512], cache[2048];
    struct error ignored;

    work->progress = (struct progress){.draft = work->draft, .scratch = &work->scratch};
    if (enroot_info(&call, info, sizeof(info), &ignored) < 0)
        return;
    if (enroot_setting(info, "ENROOT_CACHE_PATH", cache, sizeof(cache)) == 0) {
        download_watch(&work->download, cache);
        work->progress.download = &work->download;
    }
    work->progress.uncompressed =
        enroot_setting(info, "ENROOT_SQUASH_OPTIONS", options, sizeof(options)) == 0 &&
        strstr(options, "-noD") != NULL;
}

/* Everything that precedes the import. */
static int prepare(struct work *work, const char *key, struct error *err)
{
    const struct image_request *request = work->request;
    const struct enroot_call call = call_of(work);
    struct import_places places;
    int rc;

    remove_drafts(request, key);
    snprintf(work->name, sizeof(work->name), "%s@%s.draft", key, work->lease.owner);
    if (image_cache_unfinished(request->cache, work->name, work->draft, sizeof(work->draft)) < 0)
        return error_set(
            err,
            "the path of the image cache is too long; set MEGATRON_IMAGE_CACHE to a shorter one");
    rc = enroot_check(&call, err);
    if (rc == 0)
        rc = scratch_create(&work->scratch, request->temporary, err);
    if (rc == 0 && !work->lost)
        prepare_progress(work);
    places = places_of(work);
    if (rc == 0 && !work->lost)
        rc = import_check_space(request, &places, err);
    return work->lost ? say_lost(request, err) : rc;
}

static int import_with_lease(struct work *work, const char *key, char *path, size_t size,
                             struct error *err)
{
    const struct image_request *request = work->request;
    char bytes[32];
    struct stat info;
    double begun = clock_now();
    int rc;

    if (prepare(work, key, err) < 0)
        return -1;
    image_say(request, "importing %s", request->reference->text);
    rc = run_import(work, err);
    if (rc == 0) {
        rc = publish(work, key, path, size, err);
        /* If another process took the lease, it has removed the draft. */
        if (rc < 0 && keep_lease(work, 0) < 0)
            say_lost(request, err);
    }
    unlink(work->draft);
    if (rc == 0 && stat(path, &info) == 0) {
        format_size((double)info.st_size, bytes, sizeof(bytes));
        image_say(request, "imported %s: %s in %.1f s", request->reference->text, bytes,
                  clock_now() - begun);
    }
    return rc;
}

static int find_anywhere(const struct image_request *request, const char *key, char *path,
                         size_t size, struct error *err)
{
    int found;

    if (request->shared) {
        found = image_cache_find(request->shared, key, path, size, err);
        if (found == 1)
            return 1;
        if (found < 0)
            log_warning("%s", err->text);
    }
    found = image_cache_find(request->cache, key, path, size, err);
    if (found < 0) {
        /* A damaged image is imported again and replaced. */
        log_warning("%s", err->text);
        return 0;
    }
    return found;
}

/* Another process is importing: wait a moment, unless that takes too long. */
static int wait_for_other(const struct image_request *request, const struct lease_watch *watch,
                          double begun, double *said, struct error *err)
{
    int length = (int)strcspn(watch->seen, ",");
    double elapsed = clock_now() - begun;

    if (is_stopped(request->stop))
        return error_set(err, STOPPED);
    if (request->timeout > 0 && elapsed > request->timeout)
        return error_set(err, "timed out after %.0f s waiting for %.*s to import %.300s; %s",
                         request->timeout, length, watch->seen, request->reference->text,
                         request->timeout_remedy);
    if (elapsed - *said >= PROGRESS_SECONDS) {
        *said = elapsed;
        image_say(request, "waiting for %.*s to import %s (%.0f s)", length, watch->seen,
                  request->reference->text, elapsed);
    }
    image_beat(request);
    lease_pause(elapsed);
    return 0;
}

/* While holding the lease. Returns 1, -1, or 0 if another process took the lease. */
static int use_lease(struct work *work, const char *key, char *path, size_t size, struct error *err)
{
    /* It may have been imported between the lookup and the lease. */
    int rc = find_anywhere(work->request, key, path, size, err);

    if (rc == 0)
        rc = import_with_lease(work, key, path, size, err) < 0 ? -1 : 1;
    lease_release(&work->lease);
    /* Layers are many files: others need not wait until they are removed. */
    scratch_destroy(&work->scratch);
    if (rc > 0 || !work->lost)
        return rc;
    work->lost = 0;
    log_warning("%s", err->text);
    return 0;
}

static int obtain(struct work *work, const char *key, char *path, size_t size, struct error *err)
{
    const struct image_request *request = work->request;
    struct lease_watch watch = {0};
    char lease[IMAGE_KEY_SIZE + 16];
    double begun = clock_now(), said = 0;

    snprintf(lease, sizeof(lease), "work/%s.lease", key);
    for (;;) {
        int rc = find_anywhere(request, key, path, size, err);

        if (rc == 0) {
            rc = image_cache_lease(request->cache, &work->lease, lease, request->patience, &watch,
                                   err);
            if (rc == 1)
                rc = use_lease(work, key, path, size, err);
        }
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (wait_for_other(request, &watch, begun, &said, err) < 0)
            return -1;
    }
}

int image_obtain(const struct image_request *request, const char *key, char *path, size_t size,
                 struct error *err)
{
    struct work *work = xcalloc(1, sizeof(*work));
    int rc;

    work->request = request;
    work->scratch.alive = -1;
    scratch_sweep(request->temporary);
    image_cache_sweep_unfinished(request->cache);
    rc = obtain(work, key, path, size, err);
    free(work);
    return rc;
}

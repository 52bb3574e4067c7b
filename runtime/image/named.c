/* SPDX-License-Identifier: Apache-2.0 */
#include "named.h"
#include "file.h"
#include "clock.h"
#include "cache.h"
#include "enroot.h"
#include "shared_file.h"
#include "lease.h"
#include "process.h"
#include "sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A container that is being created. */
struct making {
    const struct named_request *request;
    const char *full;
    char data[4096]; /* Enroot's directory of containers */
    struct lease lease;
    int lost; /* another process assumed that this one was dead, and took the lease */
};

/* Find Enroot's directory of containers, which its configuration may set. */
static int find_data(const struct named_request *request, char *data, size_t size,
                     struct error *err)
{
    static const char name[] = "ENROOT_DATA_PATH";
    const struct enroot_call call = {
        .path = request->path, .environment = request->environment, .stop = request->stop};
    char info[ENROOT_INFO_SIZE];

    if (enroot_info(&call, info, sizeof(info), err) < 0)
        return -1;
    return enroot_setting(info, name, data, size) == 0
               ? 0
               : error_set(err,
                           "the output of `enroot info` has no %s; check the installation of "
                           "Enroot on this node",
                           name);
}

/* Inside the container itself, so that it is removed with it. */
#define ORIGIN_FILE ".megatron-image"

/* If it cannot be written, the container has no origin. */
static void write_origin(const char *container, const char *origin)
{
    char path[8192 + 32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/" ORIGIN_FILE, container);
    file = fopen(path, "wxe");
    if (!file)
        return;
    fprintf(file, "%s\n", origin);
    fclose(file);
}

static int beat(void *argument, double elapsed)
{
    struct making *making = argument;

    (void)elapsed;
    making->lost |= lease_beat(&making->lease) < 0;
    return 0;
}

static int beat_or_end(void *argument, double elapsed)
{
    struct making *making = argument;

    beat(making, elapsed);
    return making->lost ? -1 : 0;
}

static void remove_container(struct making *making, const char *name)
{
    const char *const argv[] = {"enroot", "remove", "--force", name, NULL};
    const struct process_request process = {.argv = argv,
                                            .environment = making->request->environment,
                                            .path = making->request->path,
                                            .timeout = making->request->timeout,
                                            .tick = beat,
                                            .argument = making};
    struct process_result result;
    struct error ignored;

    process_run(&process, &result, &ignored);
}

/* Drafts left by killed processes; only the holder of the lease may use one. Each is first renamed
 * to 'aside': if its creator is still alive, it must not publish this one as the container. */
static void remove_drafts(struct making *making, const char *prefix, const char *aside)
{
    const char *const drafts[] = {"%n", "%n.old", NULL};
    char from[8192], to[8192];
    DIR *listed = opendir(making->data);
    struct dirent *item;

    snprintf(to, sizeof(to), "%.4000s/%s", making->data, aside);
    while (listed && (item = readdir(listed))) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) != 0 ||
            !sweep_is_own(item->d_name + strlen(prefix), drafts))
            continue;
        snprintf(from, sizeof(from), "%.4000s/%s", making->data, item->d_name);
        if (rename(from, to) == 0)
            remove_container(making, aside);
    }
    if (listed)
        closedir(listed);
}

/* Extract the image as container 'draft'. */
static int extract(struct making *making, const char *draft, struct error *err)
{
    const struct named_request *request = making->request;
    const char *const argv[] = {"enroot", "create", "--name", draft, request->image, NULL};
    const struct process_request process = {.argv = argv,
                                            .environment = request->environment,
                                            .path = request->path,
                                            .timeout = request->timeout,
                                            .tick = beat_or_end,
                                            .argument = making,
                                            .stop = request->stop};
    struct process_result result;

    if (process_run(&process, &result, err) < 0)
        return -1;
    if (is_stopped(request->stop))
        return error_set(err, STOPPED);
    if (result.timed_out)
        return error_set(err, "creating the container %s took longer than %.0f seconds; %s",
                         request->name, request->timeout, request->timeout_remedy);
    if (result.status != 0)
        return enroot_explain("creating the container", result.status, result.errors, err);
    return 0;
}

/* While holding the lease: create the container under a draft name and rename it when it is
 * complete. If another process was faster, its container is used. */
static int make(struct making *making, struct error *err)
{
    const char *number = strrchr(making->lease.owner, ',') + 1;
    char prefix[256], draft[320], aside[320], from[8192], to[8192];
    int rc;

    snprintf(prefix, sizeof(prefix), "%.200s.draft.", making->full);
    snprintf(draft, sizeof(draft), "%s%s", prefix, number);
    snprintf(aside, sizeof(aside), "%s%s.old", prefix, number);
    remove_drafts(making, prefix, aside);
    snprintf(to, sizeof(to), "%.4000s/%s", making->data, making->full);
    if (access(to, F_OK) == 0)
        return 0;
    snprintf(from, sizeof(from), "%.4000s/%s", making->data, draft);
    rc = extract(making, draft, err);
    if (rc == 0)
        write_origin(from, making->request->origin);
    if (rc == 0 && rename(from, to) < 0 && access(to, F_OK) < 0) {
        rc = error_set_errno(err, errno, "cannot rename the container to %.300s", to);
        beat(making, 0);
    }
    if (access(from, F_OK) == 0)
        remove_container(making, draft);
    return rc;
}

int container_kept(const struct named_request *request, char *full, size_t size,
                   char origin[NAMED_ORIGIN_SIZE], struct error *err)
{
    char data[4096], path[8192];

    origin[0] = '\0';
    snprintf(full, size, "megatron_%s", request->name);
    if (find_data(request, data, sizeof(data), err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%.4000s/%s", data, full);
    if (access(path, F_OK) < 0)
        return 0;
    snprintf(path, sizeof(path), "%.4000s/%s/" ORIGIN_FILE, data, full);
    file_read_text(path, origin, NAMED_ORIGIN_SIZE);
    origin[strcspn(origin, "\n")] = '\0';
    return 1;
}

/* The path of the lease: next to the containers, for the nodes that share them and only for these.
 * Some sites have one directory for all users. */
static int name_lease(const struct making *making, char *path, size_t size, struct error *err)
{
    static const char *const leases[] = {"%w.lease", NULL};
    char directory[4096 + 32];
    int at;

    snprintf(directory, sizeof(directory), "%s/.megatron-%u", making->data, (unsigned)geteuid());
    if (shared_directory_create(directory, "ENROOT_DATA_PATH", err) < 0)
        return -1;
    at = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at >= 0) {
        sweep_unfinished(at, leases);
        close(at);
    }
    snprintf(path, size, "%s/%s.lease", directory, making->request->name);
    return 0;
}

/* Create it, or wait for the process that does. */
static int obtain(struct making *making, const char *lease, struct error *err)
{
    const struct named_request *request = making->request;
    struct lease_watch watch = {0};
    double begun = clock_now();
    char path[8192];

    snprintf(path, sizeof(path), "%.4000s/%s", making->data, making->full);
    for (;;) {
        int rc;

        file_refresh_directory(making->data);
        if (access(path, F_OK) == 0)
            return 0;
        rc = lease_take(&making->lease, lease, request->patience, &watch, err);
        if (rc < 0)
            return -1;
        if (rc == 1) {
            making->lost = 0;
            rc = make(making, err);
            lease_release(&making->lease);
            if (rc == 0 || !making->lost)
                return rc;
        }
        if (is_stopped(request->stop))
            return error_set(err, STOPPED);
        if (request->timeout > 0 && clock_now() - begun > request->timeout)
            return error_set(err,
                             "timed out after %.0f s waiting for another process to create the "
                             "container %s; %s",
                             request->timeout, request->name, request->timeout_remedy);
        lease_pause(clock_now() - begun);
    }
}

int container_keep(const struct named_request *request, char *full, size_t size, struct error *err)
{
    struct making making = {.request = request, .full = full};
    char lease[8192];

    snprintf(full, size, "megatron_%s", request->name);
    if (find_data(request, making.data, sizeof(making.data), err) < 0 ||
        name_lease(&making, lease, sizeof(lease), err) < 0)
        return -1;
    return obtain(&making, lease, err);
}

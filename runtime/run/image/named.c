/* SPDX-License-Identifier: Apache-2.0 */
#include "named.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "lib/clock.h"
#include "cache.h"
#include "container/enroot.h"
#include "shared_file.h"
#include "lib/lease.h"
#include "container/process.h"
#include "container/sweep.h"
#include "lib/trusted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A container that is being created. */
struct making {
    const struct named_request *request;
    const char *full;
    char data[4096]; /* Enroot's directory of containers */
    int at;          /* that directory, checked */
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

/* Some sites have one directory for all users. Check that none of them can replace what this user
 * has in it. */
static int open_data(const char *data, struct error *err)
{
    char path[PATH_MAX];
    int at = -1;

    if (!realpath(data, path))
        error_set_errno(err, errno, "cannot open %.300s", data);
    else if (trusted_parents(data, err) == 0)
        at = trusted_directory_open(AT_FDCWD, path, TRUSTED_SHARED, err);
    return at < 0 ? error_prefix(err, "the directory of containers, ENROOT_DATA_PATH") : at;
}

/* Open the container 'full': a descriptor, or -1 with errno set, to ENOENT if there is none. */
static int open_container(int at, const char *data, const char *full, struct error *err)
{
    int fd = trusted_directory_open(at, full, TRUSTED_PRIVATE, err), number = errno;

    if (fd < 0 && number != ENOENT)
        error_prefix(err, "cannot use the container in %.300s", data);
    errno = number;
    return fd;
}

/* Inside the container itself, so that it is removed with it. */
#define ORIGIN_FILE ".megatron-image"

/* If it cannot be written, the container has no origin. */
static void write_origin(int container, const char *origin)
{
    int fd =
        openat(container, ORIGIN_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

    if (fd < 0)
        return;
    dprintf(fd, "%s\n", origin);
    close(fd);
}

/* Whoever can enter the directory of containers must not write to this one, whatever the mode of
 * the image's root directory is. */
static int close_to_others(const struct making *making, const char *draft, struct error *err)
{
    int fd = openat(making->at, draft, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    int rc = 0;

    if (fd < 0 || fstat(fd, &info) < 0 ||
        ((info.st_mode & 022) && fchmod(fd, info.st_mode & 07755) < 0))
        rc = error_set_errno(err, errno, "cannot open the new container %.300s/%s", making->data,
                             draft);
    if (rc == 0)
        write_origin(fd, making->request->origin);
    if (fd >= 0)
        close(fd);
    return rc;
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
    DIR *listed = sweep_list(making->at, ".");
    struct dirent *item;
    struct stat info;

    while (listed && (item = readdir(listed))) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) != 0 ||
            !sweep_is_own(item->d_name + strlen(prefix), drafts) ||
            fstatat(making->at, item->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
            continue;
        if (renameat(making->at, item->d_name, making->at, aside) == 0)
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

/* Is the container there? Returns 1, 0, or -1 if it is another user's. */
static int look(const struct making *making, struct error *err)
{
    int fd = open_container(making->at, making->data, making->full, err);

    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    close(fd);
    return 1;
}

/* While holding the lease: create the container under a draft name and rename it when it is
 * complete. If another process was faster, its container is used. */
static int make(struct making *making, struct error *err)
{
    const char *number = strrchr(making->lease.owner, ',') + 1;
    char prefix[256], draft[320], aside[320];
    int rc;

    snprintf(prefix, sizeof(prefix), "%.200s.draft.", making->full);
    snprintf(draft, sizeof(draft), "%s%s", prefix, number);
    snprintf(aside, sizeof(aside), "%s%s.old", prefix, number);
    remove_drafts(making, prefix, aside);
    rc = look(making, err);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    rc = extract(making, draft, err);
    if (rc == 0)
        rc = close_to_others(making, draft, err);
    if (rc == 0 && renameat(making->at, draft, making->at, making->full) < 0) {
        int number = errno, found = look(making, err);

        beat(making, 0);
        rc = found > 0 ? 0 : -1;
        if (found == 0)
            error_set_errno(err, number, "cannot rename the container to %.300s/%s", making->data,
                            making->full);
    }
    if (faccessat(making->at, draft, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        remove_container(making, draft);
    return rc;
}

int container_kept(const struct named_request *request, char *full, size_t size,
                   char origin[NAMED_ORIGIN_SIZE], struct error *err)
{
    char data[4096];
    struct stat info;
    int at, container, rc;

    origin[0] = '\0';
    snprintf(full, size, "megatron_%s", request->name);
    if (find_data(request, data, sizeof(data), err) < 0)
        return -1;
    /* Without the directory there is no container yet. */
    if (stat(data, &info) < 0 && errno == ENOENT)
        return 0;
    at = open_data(data, err);
    if (at < 0)
        return -1;
    container = open_container(at, data, full, err);
    rc = container >= 0 ? 1 : errno == ENOENT ? 0 : -1;
    if (container >= 0) {
        file_read_text_fd(
            openat(container, ORIGIN_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), origin,
            NAMED_ORIGIN_SIZE);
        origin[strcspn(origin, "\n")] = '\0';
        close(container);
    }
    close(at);
    return rc;
}

/* The directory of this user's leases: next to the containers, for the nodes that share them and
 * only for these. */
static int open_leases(const struct making *making, struct error *err)
{
    static const char *const leases[] = {"%w.lease", NULL};
    char name[32];
    int at;

    snprintf(name, sizeof(name), ".megatron-%u", (unsigned)geteuid());
    if (mkdirat(making->at, name, 0700) < 0 && errno != EEXIST) {
        error_set_errno(err, errno, "cannot create the directory %.300s/%s", making->data, name);
        return error_append(err, "; set ENROOT_DATA_PATH to a directory that you can write to");
    }
    at = trusted_directory_open(making->at, name, TRUSTED_PRIVATE, err);
    if (at < 0) {
        error_prefix(err, "%.300s", making->data);
        return error_append(err, "; ask the administrator to remove it");
    }
    sweep_unfinished(at, leases);
    return at;
}

/* Create it, or wait for the process that does. */
static int obtain(struct making *making, int leases, struct error *err)
{
    const struct named_request *request = making->request;
    struct lease_watch watch = {0};
    double begun = clock_now();
    char name[256];

    snprintf(name, sizeof(name), "%.200s.lease", request->name);
    for (;;) {
        int rc;

        file_refresh_directory(making->data);
        rc = look(making, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        rc = lease_take(&making->lease, leases, name, request->patience, &watch, err);
        if (rc < 0)
            return error_prefix(err, "%.300s/.megatron-%u", making->data, (unsigned)geteuid());
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
    struct making making = {.request = request, .full = full, .at = -1};
    int leases = -1, rc = -1;

    snprintf(full, size, "megatron_%s", request->name);
    if (find_data(request, making.data, sizeof(making.data), err) == 0 &&
        shared_directory_create(making.data, "ENROOT_DATA_PATH", err) == 0)
        making.at = open_data(making.data, err);
    if (making.at >= 0)
        leases = open_leases(&making, err);
    if (leases >= 0) {
        rc = obtain(&making, leases, err);
        close(leases);
    }
    if (making.at >= 0)
        close(making.at);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"
#include "lib/clock.h"
#include "enroot.h"
#include "holder.h"
#include "process.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The path of the holder inside the container. */
#define HOLDER_PATH "/.megatron-holder"

static const unsigned char holder_program[] = {
#include "holder_bytes.inc"
};

static int write_holder(const char *path, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ssize_t size = sizeof(holder_program);
    int good = fd >= 0 && write(fd, holder_program, sizeof(holder_program)) == size;

    if (fd >= 0 && (fchmod(fd, 0755) < 0 || close(fd) < 0))
        good = 0;
    return good ? 0 : error_set_errno(err, errno, "cannot write %.300s", path);
}

/* Quote text for a shell: a here-document with a quoted delimiter expands nothing, and none of our
 * lines contains a newline. */
static int write_function(FILE *file, const char *name)
{
    return fprintf(file, "%s() {\ncat <<'MEGATRON_END'\n", name);
}

static int write_mounts(FILE *file, const char *holder, const struct container_mounts *mounts,
                        struct error *err)
{
    char line[8200];
    struct container_mount own = {(char *)holder, (char *)HOLDER_PATH,
                                  (char *)"x-create=file,bind,ro,nosuid,nodev"};

    write_function(file, "mounts");
    for (size_t i = 0; i <= (mounts ? mounts->count : 0); i++) {
        const struct container_mount *mount = i == 0 ? &own : &mounts->items[i - 1];

        if (mount_format(mount, line, sizeof(line)) < 0)
            return error_set(
                err, "the paths and flags of the mount of %.200s are too long; use shorter ones",
                mount->source);
        fprintf(file, "%s\n", line);
    }
    fprintf(file, "MEGATRON_END\n}\n");
    return 0;
}

static int write_settings(FILE *file, const struct container_request *request, struct error *err)
{
    write_function(file, "environ");
    if (!request->entrypoint)
        fprintf(file, "SHELL=%s\n", HOLDER_PATH);
    for (size_t i = 0; request->settings && request->settings[i]; i++) {
        if (strchr(request->settings[i], '\n'))
            return error_set(err, "the value of %.*s contains a newline; remove it",
                             (int)strcspn(request->settings[i], "="), request->settings[i]);
        fprintf(file, "%s\n", request->settings[i]);
    }
    fprintf(file, "MEGATRON_END\n}\n");
    return 0;
}

static int write_configuration(const char *path, const char *holder,
                               const struct container_request *request, struct error *err)
{
    FILE *file = fopen(path, "wxe");
    int rc;

    if (!file)
        return error_set_errno(err, errno, "cannot write %.300s", path);
    rc = write_mounts(file, holder, request->mounts, err);
    if (rc == 0)
        rc = write_settings(file, request, err);
    if (fclose(file) != 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write %.300s", path);
    return rc;
}

struct launch {
    const char *program;
    const char *argv[16];
    const char **environment;
    int lifetime, ready, log;
};

/* Runs in the child. It forks once more so that the container is not a child of the caller: a
 * program that waits for all its children must not wait for its own container. */
static void launch_child(const struct launch *launch)
{
    sigset_t none;

    setsid();
    if (fork() != 0)
        _exit(0);
    if (dup2(launch->lifetime, 0) < 0 || dup2(launch->ready, 1) < 0 || dup2(launch->log, 2) < 0)
        _exit(126);
    /* The container must not inherit descriptors of the task (PMI, Slurm's pipes). */
    close_range(3, ~0U, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(launch->program, (char *const *)launch->argv, (char *const *)launch->environment);
    dprintf(2, "cannot execute %s: %s\n", launch->program, strerror(errno));
    _exit(127);
}

/* Bytes read from the holder's stream that may still be part of its record. */
struct stream {
    char text[4096];
    size_t used;
};

/* Continue reading and search for the record. Returns the holder's PID, 0 if the record is not
 * complete yet, or -1 at the end of the stream. */
static int read_record(int fd, struct stream *stream)
{
    const size_t keep = sizeof(struct holder_record) - 1;
    ssize_t got = read(fd, stream->text + stream->used, sizeof(stream->text) - stream->used);
    struct holder_record record;

    if (got <= 0)
        return got < 0 && errno == EINTR ? 0 : -1;
    stream->used += (size_t)got;
    for (size_t at = 0; at + sizeof(record) <= stream->used; at++) {
        memcpy(&record, stream->text + at, sizeof(record));
        if (memcmp(record.word, HOLDER_WORD, sizeof(record.word)) == 0 && record.number > 0)
            return record.number;
    }
    if (stream->used > keep) {
        memmove(stream->text, stream->text + stream->used - keep, keep);
        stream->used = keep;
    }
    return 0;
}

/* Returns 1 if the container has started, 0 on a timeout or a request to stop, -1 if the container
 * has exited. */
static int wait_ready(int ready, const struct container_request *request, pid_t *holder)
{
    struct pollfd poller = {.fd = ready, .events = POLLIN};
    const int look = 200; /* milliseconds */
    double begun = clock_now();
    struct stream stream = {.used = 0};
    int number = 0;

    while (number == 0) {
        int got = poll(&poller, 1, look);

        if (got > 0)
            number = read_record(ready, &stream);
        else if (got < 0 && errno != EINTR)
            return 0;
        if (number == 0 && (is_stopped(request->stop) || clock_now() - begun > request->timeout))
            return 0;
    }
    *holder = number;
    return number > 0 ? 1 : -1;
}

static int explain_log(const struct container_request *request, int log, int answer,
                       struct error *err)
{
    char text[4096];
    off_t end = lseek(log, 0, SEEK_END);
    off_t begin = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
    ssize_t got = pread(log, text, sizeof(text) - 1, begin);
    char what[400];

    text[got > 0 ? got : 0] = '\0';
    if (is_stopped(request->stop))
        return error_set(err, STOPPED);
    if (answer == 0)
        return error_set(err,
                         "the container of %.300s did not start within %.0f seconds; check the "
                         "load of this node, and that the file system of the image responds",
                         request->image, request->timeout);
    snprintf(what, sizeof(what), "start of %.300s", request->image);
    enroot_explain(what, -1, text, err); /* it is not a child of this process */
    if (request->entrypoint)
        error_append(err, "; the image's entry point must execute its arguments (exec \"$@\")%s%s",
                     request->entrypoint_remedy ? "; if it does not, " : "",
                     request->entrypoint_remedy ? request->entrypoint_remedy : "");
    return -1;
}

static int launch_and_wait(const struct container_request *request, struct launch *launch,
                           pid_t *holder, struct error *err)
{
    int ready[2];
    pid_t child;
    int answer, status;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return process_not_started("enroot", errno, err);
    launch->ready = ready[1];
    child = fork();
    if (child == 0)
        launch_child(launch);
    if (child < 0) {
        process_not_started("enroot", errno, err);
        close(ready[0]), close(ready[1]);
        return -1;
    }
    close(ready[1]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    answer = wait_ready(ready[0], request, holder);
    close(ready[0]);
    /* A container that is still starting must not continue in a directory that is about to be
     * removed. Its session id is the PID of the child that started it. */
    if (answer != 1)
        kill(-child, SIGKILL);
    return answer == 1 ? 0 : explain_log(request, launch->log, answer, err);
}

static void fill_arguments(const struct container_request *request, const char *configuration,
                           struct launch *launch)
{
    int used = 0;

    launch->argv[used++] = "enroot";
    launch->argv[used++] = "start";
    launch->argv[used++] = "--conf";
    launch->argv[used++] = configuration;
    if (request->writable)
        launch->argv[used++] = "--rw";
    if (request->remap_root)
        launch->argv[used++] = "--root";
    launch->argv[used++] = request->image;
    launch->argv[used++] = HOLDER_PATH;
    launch->argv[used] = NULL;
}

static int start_in(const struct scratch *scratch, const struct container_request *request,
                    int lifetime, pid_t *holder, struct error *err)
{
    char program[4096], path[2100], configuration[2100], runtime[2120], home[64];
    const char *settings[] = {runtime, home, NULL};
    struct launch launch = {.program = program, .lifetime = lifetime};
    int rc;

    if (process_find("enroot", request->path, program, sizeof(program)) < 0)
        return error_set(
            err,
            "enroot is not installed in %.300s; install Enroot 4.0 or newer on the compute nodes",
            request->path);
    snprintf(path, sizeof(path), "%s/holder", scratch->path);
    snprintf(configuration, sizeof(configuration), "%s/configuration", scratch->path);
    snprintf(runtime, sizeof(runtime), "ENROOT_RUNTIME_PATH=%s/run", scratch->path);
    snprintf(home, sizeof(home), "ENROOT_MOUNT_HOME=%s", request->mount_home ? "yes" : "no");
    if (write_holder(path, err) < 0 || write_configuration(configuration, path, request, err) < 0)
        return -1;
    fill_arguments(request, configuration, &launch);
    launch.environment = enroot_environment(request->environment, settings);
    launch.log = memfd_create("enroot", MFD_CLOEXEC);
    if (!launch.environment || launch.log < 0)
        rc = process_not_started("enroot", errno, err);
    else
        rc = launch_and_wait(request, &launch, holder, err);
    if (launch.log >= 0)
        close(launch.log);
    free(launch.environment);
    return rc;
}

int container_start(const struct container_request *request, int lifetime, pid_t *holder,
                    struct error *err)
{
    struct scratch scratch;
    int rc;

    scratch_sweep(request->temporary);
    if (scratch_create(&scratch, request->temporary, err) < 0)
        return -1;
    rc = start_in(&scratch, request, lifetime, holder, err);
    /* The container's mounts exist by now and do not need the directory entries on the host. */
    scratch_destroy(&scratch);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Start an image as a container and run a command in it, as the plugin does it for a task:
 *     enter [--mounts LIST] [--workdir DIR] [--entrypoint] [--rw] [--root] IMAGE COMMAND... */
#include "container/host.h"
#include "container/mounts.h"
#include "container/start.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static int set_variable(void *argument, const char *name, const char *value)
{
    (void)argument;
    return setenv(name, value, 1);
}

static int fail(const struct error *err)
{
    fprintf(stderr, "enter: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct container_mounts mounts = {0};
    const char *workdir = NULL;
    struct error err = {.text = ""};
    struct container_request request = {.environment = (const char *const *)environ,
                                        .path = getenv("PATH"),
                                        .temporary = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                                        .timeout = 120};
    bool entered;
    int lifetime[2], at = 1;
    pid_t holder;

    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--mounts") == 0 && at + 1 < argc) {
            if (mounts_parse("--mounts", argv[++at], &mounts, &err) < 0)
                return fail(&err);
            request.mounts = &mounts;
        } else if (strcmp(argv[at], "--workdir") == 0 && at + 1 < argc)
            workdir = argv[++at];
        else if (strcmp(argv[at], "--entrypoint") == 0)
            request.entrypoint = 1;
        else if (strcmp(argv[at], "--rw") == 0)
            request.writable = 1;
        else if (strcmp(argv[at], "--root") == 0)
            request.remap_root = 1;
    }
    if (argc - at < 2 || pipe(lifetime) < 0)
        return 2;
    fcntl(lifetime[0], F_SETFD, FD_CLOEXEC);
    request.image = argv[at];
    if (host_check(request.path, NULL, &err) < 0 ||
        container_start(&request, lifetime[0], &holder, &err) < 0 ||
        container_environment(holder, set_variable, NULL, &err) < 0 ||
        container_join(holder, request.entrypoint, workdir, &entered, &err) < 0)
        return fail(&err);
    execvp(argv[at + 1], argv + at + 1);
    perror("enter: cannot execute");
    return 127;
}

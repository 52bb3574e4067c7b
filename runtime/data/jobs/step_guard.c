/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "work_files.h"
#include "lib/file.h"
#include "base/core/last_resort.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Get the name and the parent of a process. Returns 0 or -1. Names may contain spaces and
 * parentheses. */
static int look_at(long pid, char *name, size_t size, long *parent)
{
    char path[64], line[512], *open, *close;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    if (file_read_text(path, line, sizeof(line)) < 0)
        return -1;
    open = strchr(line, '(');
    close = strrchr(line, ')');
    if (!open || !close || sscanf(close + 1, " %*c %ld", parent) != 1)
        return -1;
    snprintf(name, size, "%.*s", (int)(close - open) - 1, open + 1);
    return 0;
}

static void *watch(void *argument)
{
    struct pollfd step = {(int)(intptr_t)argument, POLLIN, 0};

    while (poll(&step, 1, -1) < 1)
        ;
    last_resort("slurmstepd has ended; this rank ends, too; see the log of slurmd on this node");
}

void step_guard_start(void)
{
    char name[64];
    long pid = getppid(), parent;
    pthread_t thread;
    int fd;

    while (pid > 1) {
        if (look_at(pid, name, sizeof(name), &parent) < 0)
            return;
        if (strncmp(name, "slurmstepd", 10) == 0)
            break;
        pid = parent;
    }
    if (pid <= 1)
        return;
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && pthread_create(&thread, NULL, watch, (void *)(intptr_t)fd) == 0)
        pthread_detach(thread);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"
#include "lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ENVIRONMENT = 4 << 20, MOST_RC = 1 << 20 };

/* In the order in which they are joined: the user namespace grants the right to join the others. */
static const struct {
    const char *name;
    int flag;
} spaces[] = {
    {"user", CLONE_NEWUSER}, {"cgroup", CLONE_NEWCGROUP}, {"mnt", CLONE_NEWNS},
    {"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS},       {"net", CLONE_NEWNET},
};

enum { SPACES = sizeof(spaces) / sizeof(spaces[0]) };

int container_environment(pid_t holder,
                          int (*set)(void *argument, const char *name, const char *value),
                          void *argument, struct error *err)
{
    char path[64];
    struct file_bytes text;
    int rc = 0;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)holder);
    if (file_read(path, MOST_ENVIRONMENT, &text, err) < 0)
        return error_prefix(err, "cannot read the container's environment");
    for (char *at = text.data; at < text.data + text.length && rc == 0; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');

        if (!equals || equals == at)
            continue;
        *equals = '\0';
        if (set(argument, at, equals + 1) != 0)
            rc = error_set(err,
                           "cannot set the image's variable %.100s in the task; the image's "
                           "environment may be too large: remove large variables from the image, "
                           "or raise the stack limit (ulimit -s)",
                           at);
        *equals = '=';
    }
    file_bytes_clear(&text);
    return rc;
}

/* A kernel may lack other namespaces, but not the mount namespace: if it is missing, the holder has
 * exited, and the task must not run outside the container. */
static int open_space(pid_t holder, const char *name, int *fd)
{
    char theirs[64], mine[64];
    struct stat a, b;

    snprintf(theirs, sizeof(theirs), "/proc/%d/ns/%s", (int)holder, name);
    snprintf(mine, sizeof(mine), "/proc/self/ns/%s", name);
    *fd = open(theirs, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT && strcmp(name, "mnt") != 0 ? 0 : -1;
    if (fstat(*fd, &a) == 0 && stat(mine, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino) {
        close(*fd);
        *fd = -1;
    }
    return 0;
}

/* The working directory that Enroot wrote into /etc/rc when it imported the image: the line
 *     cd "DIR" && unset OLDPWD || exit 1 */
static int find_workdir(char *workdir, size_t size)
{
    struct file_bytes text;
    char *line, *end = NULL;

    if (file_read("/etc/rc", MOST_RC, &text, NULL) < 0)
        return -1;
    line = text.data;
    while (line && strncmp(line, "cd \"", 4) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (line)
        end = strstr(line, "\" && unset OLDPWD");
    if (end && memchr(line, '\n', (size_t)(end - line)))
        end = NULL;
    if (end)
        snprintf(workdir, size, "%.*s", (int)(end - line - 4), line + 4);
    file_bytes_clear(&text);
    return end ? 0 : -1;
}

static int enter_workdir(const char *holder_directory, bool entrypoint, const char *workdir,
                         struct error *err)
{
    char image_dir[4096] = "/";

    if (!workdir && entrypoint)
        workdir = holder_directory;
    if (!workdir) {
        find_workdir(image_dir, sizeof(image_dir));
        workdir = image_dir;
    }
    if (chdir(workdir) < 0)
        return error_set(err,
                         "cannot change to the directory %.300s in the container: %s; create it "
                         "in the image, mount it, or choose another working directory",
                         workdir, strerror(errno));
    return 0;
}

static int namespace_error(const char *verb, const char *space, struct error *err)
{
    error_set_errno(err, errno, "cannot %s the container's %s namespace", verb, space);
    return error_append(err, "; if the container has ended, the log of slurmd on this node says "
                             "why");
}

int container_join(pid_t holder, bool entrypoint, const char *workdir, bool *entered,
                   struct error *err)
{
    char link[64], holder_directory[4096] = "/";
    int fds[SPACES], rc = -1;
    ssize_t length;

    snprintf(link, sizeof(link), "/proc/%d/cwd", (int)holder);
    length = readlink(link, holder_directory, sizeof(holder_directory) - 1);
    if (length > 0)
        holder_directory[length] = '\0';
    *entered = false;
    memset(fds, -1, sizeof(fds));
    /* Open all first: after the mount namespace is joined, /proc is the container's. */
    for (int i = 0; i < SPACES; i++)
        if (open_space(holder, spaces[i].name, &fds[i]) < 0) {
            namespace_error("open", spaces[i].name, err);
            goto out;
        }
    for (int i = 0; i < SPACES; i++) {
        if (fds[i] < 0)
            continue;
        if (setns(fds[i], spaces[i].flag) < 0) {
            namespace_error("join", spaces[i].name, err);
            goto out;
        }
        *entered |= spaces[i].flag == CLONE_NEWNS;
    }
    /* The holder's PID may have been reused by a process in this process's namespaces. */
    if (*entered)
        rc = enter_workdir(holder_directory, entrypoint, workdir, err);
    else
        error_set(err, "the container has ended; the log of slurmd on this node says why");
out:
    for (int i = 0; i < SPACES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return rc;
}

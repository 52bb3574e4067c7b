/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"
#include "lib/file.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Try it in a child: many kernel and distribution settings can forbid it. */
static int check_namespaces(struct error *err)
{
    char most[32] = "?";
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? errno & 0xff : 0);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child < 0)
        return process_not_started("a process on this node", errno, err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return 0;
    file_read_text("/proc/sys/user/max_user_namespaces", most, sizeof(most));
    most[strcspn(most, "\n")] = '\0';
    return error_set(err,
                     "cannot create user namespaces: %s; the administrator must allow them (sysctl "
                     "user.max_user_namespaces is %s; see also kernel.unprivileged_userns_clone "
                     "and kernel.apparmor_restrict_unprivileged_userns)",
                     strerror(WEXITSTATUS(status)), most);
}

static int check_fuse(const char *path, const char *fuse, struct error *err)
{
    char full[4096];
    int fd;

    if (process_find("squashfuse", path, full, sizeof(full)) < 0)
        return error_set(
            err,
            "squashfuse is not installed in %.300s; install it on the compute nodes, or set "
            "enroot_path= in plugstack.conf",
            path);
    fd = open(fuse, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        error_set_errno(err, errno, "cannot open %.100s, which is needed to start images", fuse);
        return error_append(err, "; the administrator must load the module fuse and let users open "
                                 "the device (chmod 0666)");
    }
    close(fd);
    return 0;
}

int host_check(const char *path, const char *fuse, struct error *err)
{
    char full[4096];

    if (process_find("enroot", path, full, sizeof(full)) < 0)
        return error_set(err,
                         "enroot is not installed in %.300s; install Enroot 4.0 or newer on the "
                         "compute nodes, or set enroot_path= in plugstack.conf",
                         path);
    if (check_namespaces(err) < 0)
        return -1;
    return fuse ? check_fuse(path, fuse, err) : 0;
}

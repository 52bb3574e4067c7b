/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "directory.h"
#include "lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The previous run may be about to end. */
static const double WAIT_SECONDS = 5;

/* Name the holder from the contents of the lock file; a run that has just taken the lock may not
 * have written it yet. */
static int in_use(int fd, const char *path, struct error *err)
{
    char holder[256];
    ssize_t got = pread(fd, holder, sizeof(holder) - 1, 0);

    holder[got > 0 ? got : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    close(fd);
    return error_set(err, "another run is saving to %s%s%s, which must end first", path,
                     holder[0] ? ": " : "", holder);
}

/* For information only, so errors are ignored. */
static void sign(int fd)
{
    const char *job = getenv("SLURM_JOB_ID");
    char host[128] = "?", text[256];
    int size;

    gethostname(host, sizeof(host) - 1);
    size = snprintf(text, sizeof(text), "process %d on %s%s%.20s\n", (int)getpid(), host,
                    job ? ", job " : "", job ? job : "");
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)size, 0) < 0)
        return;
}

int directory_lock(const char *path, struct error *unlocked, struct error *err)
{
    char name[PATH_MAX];
    int fd, rc;

    unlocked->text[0] = '\0';
    if (directory_path(name, err, "%s/.lock", path) < 0)
        return -1;
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot write %s", name);
    rc = file_lock(fd, WAIT_SECONDS);
    if (rc > 0)
        return in_use(fd, path, err);
    if (rc < 0)
        error_set_errno(unlocked, errno, "cannot lock files in %s", path);
    sign(fd);
    return fd;
}

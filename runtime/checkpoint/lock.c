#include "config.h"

#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITS = 50, WAIT_MICROSECONDS = 100000 };

/* The owner of the lock, as it wrote itself; a run that has just locked it may not have written
 * yet. */
static int in_use(int fd, const char *path, struct error *err)
{
    char holder[256];
    ssize_t got = pread(fd, holder, sizeof(holder) - 1, 0);

    holder[got > 0 ? got : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    close(fd);
    return error_set(
        err, "another run is saving to %s%s%s; stop it, or use another directory for this run",
        path, holder[0] ? ": " : "", holder);
}

/* For people only: if it cannot be written, it is left out. */
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
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char name[PATH_MAX];
    int fd;

    unlocked->text[0] = '\0';
    if (directory_path(name, err, "%s/.lock", path) < 0)
        return -1;
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot write %s", name);
    /* The previous run may be about to end. */
    for (int i = 0; fcntl(fd, F_OFD_SETLK, &whole) < 0; i++) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            error_set_errno(unlocked, errno, "files in %s cannot be locked", path);
            break;
        }
        if (i == WAITS)
            return in_use(fd, path, err);
        usleep(WAIT_MICROSECONDS);
    }
    sign(fd);
    return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lease.h"
#include "clock.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRIVATE = 0600, SHARED = 0666 };

static int write_file(int at, const char *path, int flags, mode_t mode, const char *owner,
                      unsigned beats)
{
    char text[LEASE_TEXT_SIZE];
    int length = snprintf(text, sizeof(text), "%s %u\n", owner, beats);
    int fd = openat(at, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, mode);
    int rc = -1;

    if (fd < 0)
        return -1;
    if (pwrite(fd, text, (size_t)length, 0) == length && ftruncate(fd, length) == 0)
        rc = 0;
    if (close(fd) < 0)
        rc = -1;
    return rc;
}

int lease_read(int at, const char *path, char text[LEASE_TEXT_SIZE])
{
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return file_read_text_fd(fd, text, LEASE_TEXT_SIZE) < 0 ? -1 : 0;
}

/* A temporary file in the directory of the lease. */
static void name_draft(char *draft, size_t size, const char *path, const char *owner)
{
    const char *slash = strrchr(path, '/');

    snprintf(draft, size, "%.*slease@%s.new", slash ? (int)(slash + 1 - path) : 0, path, owner);
}

/* For file systems without hard links: exclusive creation. Others may see the file while it is
 * empty. */
static int create_file(struct lease *lease, mode_t mode)
{
    if (write_file(lease->at, lease->path, O_CREAT | O_EXCL, mode, lease->owner, 0) == 0)
        return 1;
    return errno == EEXIST ? 0 : -1;
}

/* Put 'lease' at its path unless a lease exists. Returns 1, 0 or -1 (errno). */
static int place_file(struct lease *lease, mode_t mode)
{
    char draft[sizeof(lease->path) + OWNER_SIZE + 8];
    struct stat info;
    int taken, number;

    name_draft(draft, sizeof(draft), lease->path, lease->owner);
    if (write_file(lease->at, draft, O_CREAT | O_EXCL, mode, lease->owner, 0) < 0) {
        number = errno;
        unlinkat(lease->at, draft, 0);
        errno = number;
        return -1;
    }
    taken = linkat(lease->at, draft, lease->at, lease->path, 0) == 0;
    number = errno;
    /* On NFS the reply to link() can get lost; the link count shows whether it worked. */
    if (!taken && fstatat(lease->at, draft, &info, AT_SYMLINK_NOFOLLOW) == 0)
        taken = info.st_nlink == 2;
    unlinkat(lease->at, draft, 0);
    if (!taken && (number == EPERM || number == EOPNOTSUPP || number == ENOSYS))
        return create_file(lease, mode);
    return taken;
}

void lease_break(int at, const char *path, const char *seen)
{
    char aside[4096 + OWNER_SIZE], owner[OWNER_SIZE], text[LEASE_TEXT_SIZE] = "";

    owner_name(owner);
    name_draft(aside, sizeof(aside), path, owner);
    if (renameat(at, path, at, aside) < 0)
        return;
    /* Another process may have broken the lease first and taken it: then give it back. If a third
     * one took it meanwhile, that fails, and the holder notices at its next heartbeat. */
    if (lease_read(at, aside, text) == 0 && strcmp(text, seen) != 0)
        (void)!linkat(at, aside, at, path, 0);
    unlinkat(at, aside, 0);
}

double lease_silence(struct lease_watch *watch, const char *seen, double patience)
{
    double now = clock_now(), turn = now - watch->looked, most = patience / 8;

    if (watch->looked == 0 || strcmp(seen, watch->seen) != 0) {
        snprintf(watch->seen, sizeof(watch->seen), "%s", seen);
        watch->since = now;
    } else if (turn > most) {
        watch->since += turn - most;
    }
    watch->looked = now;
    return now - watch->since;
}

static int take(struct lease *lease, int at, const char *path, mode_t mode, double patience,
                struct lease_watch *watch, struct error *err)
{
    char seen[LEASE_TEXT_SIZE] = "";

    lease->at = at;
    snprintf(lease->path, sizeof(lease->path), "%s", path);
    owner_name(lease->owner);
    lease->beats = 0;
    for (int tries = 0; tries < 8; tries++) {
        int taken, number;

        /* Many processes may be waiting, and only reading does not disturb the others. */
        if (lease_read(at, path, seen) == 0) {
            if (seen[0] && owner_length(seen) == 0) {
                error_set(err, "%.300s exists but is not a lease; move it away", path);
                errno = EEXIST;
                return -1;
            }
            if (lease_silence(watch, seen, patience) < patience && owner_fate(seen) != OWNER_GONE)
                return 0;
            lease_break(at, path, seen);
            watch->broken = 1;
            snprintf(watch->dead, sizeof(watch->dead), "%s", seen);
        }
        taken = place_file(lease, mode);
        if (taken < 0) {
            number = errno;
            error_set_errno(err, number, "cannot create %.300s", path);
            errno = number;
            return -1;
        }
        if (taken)
            return 1;
    }
    return 0;
}

int lease_take(struct lease *lease, int at, const char *path, double patience,
               struct lease_watch *watch, struct error *err)
{
    return take(lease, at, path, PRIVATE, patience, watch, err);
}

int lease_take_shared(struct lease *lease, const char *path, double patience,
                      struct lease_watch *watch, struct error *err)
{
    return take(lease, AT_FDCWD, path, SHARED, patience, watch, err);
}

void lease_pause(double waited)
{
    double pause = waited / 10;

    clock_sleep_about(pause < 0.1 ? 0.1 : pause > 2 ? 2 : pause);
}

static int is_held(const struct lease *lease)
{
    char seen[LEASE_TEXT_SIZE] = "";

    return lease_read(lease->at, lease->path, seen) == 0 &&
           strncmp(seen, lease->owner, strlen(lease->owner)) == 0;
}

int lease_beat(struct lease *lease)
{
    if (!is_held(lease))
        return -1;
    /* The lease is still held if it cannot be written, for example on a full disk. */
    (void)write_file(lease->at, lease->path, 0, 0, lease->owner, ++lease->beats);
    return 0;
}

int lease_release(struct lease *lease)
{
    if (!is_held(lease))
        return -1;
    unlinkat(lease->at, lease->path, 0);
    return 0;
}

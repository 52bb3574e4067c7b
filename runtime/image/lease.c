#include "lease.h"
#include "files.h"
#include "shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_file(const char *path, int flags, const char *owner, unsigned beats)
{
    char text[LEASE_TEXT_SIZE];
    int length = snprintf(text, sizeof(text), "%s %u\n", owner, beats);
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    int rc = -1;

    if (fd < 0)
        return -1;
    if (pwrite(fd, text, (size_t)length, 0) == length && ftruncate(fd, length) == 0)
        rc = 0;
    if (close(fd) < 0)
        rc = -1;
    return rc;
}

/* Beside the lease, whatever that is called. */
static void name_draft(char *draft, size_t size, const char *path, const char *owner)
{
    snprintf(draft, size, "%.*slease@%s.new", (int)(strrchr(path, '/') + 1 - path), path, owner);
}

/* Put 'lease' at its path unless there is one. Returns 1, 0 or -1 (errno). */
static int place_file(struct lease *lease)
{
    char draft[sizeof(lease->path) + OWNER_SIZE + 8];
    struct stat info;
    int taken;

    name_draft(draft, sizeof(draft), lease->path, lease->owner);
    if (write_file(draft, O_CREAT | O_EXCL, lease->owner, 0) < 0)
        return -1;
    /* On NFS the answer to link() can get lost; the link count tells. */
    taken = link(draft, lease->path) == 0;
    if (!taken && stat(draft, &info) == 0)
        taken = info.st_nlink == 2;
    unlink(draft);
    return taken;
}

void lease_break(const char *path, const char *seen)
{
    char aside[4096 + OWNER_SIZE], owner[OWNER_SIZE], text[LEASE_TEXT_SIZE] = "";

    owner_name(owner);
    name_draft(aside, sizeof(aside), path, owner);
    if (rename(path, aside) < 0)
        return;
    /* Another process may have broken it first and taken it: then give that one back. Where a third
     * one took it meanwhile that fails, and the holder notices at the next beat. */
    if (small_file_read(aside, text, sizeof(text)) == 0 && strcmp(text, seen) != 0)
        (void)!link(aside, path);
    unlink(aside);
}

double lease_silence(struct lease_watch *watch, const char *seen, double patience)
{
    double now = seconds_now(), turn = now - watch->looked, most = patience / 8;

    if (watch->looked == 0 || strcmp(seen, watch->seen) != 0) {
        snprintf(watch->seen, sizeof(watch->seen), "%s", seen);
        watch->since = now;
    } else if (turn > most) {
        watch->since += turn - most;
    }
    watch->looked = now;
    return now - watch->since;
}

int lease_take(struct lease *lease, const char *path, double patience, struct lease_watch *watch,
               struct error *err)
{
    char seen[LEASE_TEXT_SIZE] = "";

    snprintf(lease->path, sizeof(lease->path), "%s", path);
    owner_name(lease->owner);
    lease->beats = 0;
    for (int tries = 0; tries < 8; tries++) {
        int taken;

        /* Many may wait, and only reading disturbs nobody. */
        if (small_file_read(path, seen, sizeof(seen)) == 0) {
            if (lease_silence(watch, seen, patience) < patience && owner_fate(seen) != OWNER_GONE)
                return 0;
            lease_break(path, seen);
            watch->broken = 1;
        }
        taken = place_file(lease);
        if (taken < 0)
            return error_set_errno(err, errno, "cannot create the lease %.300s", path);
        if (taken)
            return 1;
    }
    return 0;
}

void lease_pause(double waited)
{
    double pause = waited / 10;

    sleep_with_jitter(pause < 0.1 ? 0.1 : pause > 2 ? 2 : pause);
}

int lease_beat(struct lease *lease)
{
    char seen[LEASE_TEXT_SIZE] = "";
    size_t length = strlen(lease->owner);

    if (small_file_read(lease->path, seen, sizeof(seen)) < 0 ||
        strncmp(seen, lease->owner, length) != 0)
        return -1;
    /* Where it cannot be written, as on a full disk, it is still held. */
    (void)write_file(lease->path, 0, lease->owner, ++lease->beats);
    return 0;
}

void lease_release(struct lease *lease)
{
    char seen[LEASE_TEXT_SIZE] = "";
    size_t length = strlen(lease->owner);

    if (small_file_read(lease->path, seen, sizeof(seen)) == 0 &&
        strncmp(seen, lease->owner, length) == 0)
        unlink(lease->path);
}

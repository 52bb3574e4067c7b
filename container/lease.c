#include "lease.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* A name of the place where process ids mean something: this boot and this pid namespace. */
static void read_place(char *place, size_t size)
{
    char boot[64];
    struct stat space = {0};

    small_file_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
    boot[strcspn(boot, "\n")] = '\0';
    stat("/proc/self/ns/pid", &space);
    snprintf(place, size, "%s/%" PRIu64, boot, (uint64_t)space.st_ino);
}

static void name_owner(char owner[LEASE_OWNER_SIZE])
{
    struct utsname host;
    char place[128];
    uint64_t number = 0;

    uname(&host);
    read_place(place, sizeof(place));
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)(seconds_now() * 1e9);
    snprintf(owner, LEASE_OWNER_SIZE, "%.64s %d %.100s %016" PRIx64, host.nodename, (int)getpid(),
             place, number);
}

/* Is the owner a process of this very place that is gone? */
static int is_dead_neighbour(const char *seen)
{
    char host[65], place[128], mine[128];
    int pid;

    if (sscanf(seen, "%64s %d %127s", host, &pid, place) != 3 || pid < 1)
        return 0;
    read_place(mine, sizeof(mine));
    return strcmp(place, mine) == 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

static int write_file(const char *path, int flags, const char *owner, unsigned beats)
{
    char text[LEASE_OWNER_SIZE + 32];
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

/* Put 'lease' at its path unless there is one. Returns 1, 0 or -1 (errno). */
static int place_file(struct lease *lease)
{
    char draft[4096 + 32];
    struct stat info;
    const char *number = strrchr(lease->owner, ' ') + 1;
    int taken;

    snprintf(draft, sizeof(draft), "%s.%s", lease->path, number);
    if (write_file(draft, O_CREAT | O_EXCL, lease->owner, 0) < 0)
        return -1;
    /* On NFS the answer to link() can get lost; the link count tells. */
    taken = link(draft, lease->path) == 0;
    if (!taken && stat(draft, &info) == 0)
        taken = info.st_nlink == 2;
    unlink(draft);
    return taken;
}

/* Remove the lease that says 'seen', and none other. */
static void break_lease(const struct lease *lease, const char *seen)
{
    char aside[4096 + 32], text[LEASE_OWNER_SIZE + 32] = "";

    snprintf(aside, sizeof(aside), "%s.%s", lease->path, strrchr(lease->owner, ' ') + 1);
    if (rename(lease->path, aside) < 0)
        return;
    /* Another process may have broken it first and taken it: then give that one back. */
    if (small_file_read(aside, text, sizeof(text)) == 0 && strcmp(text, seen) != 0 &&
        link(aside, lease->path) < 0) {
        /* A third one took it meanwhile; its holder notices at the next beat. */
    }
    unlink(aside);
}

int lease_take(struct lease *lease, const char *path, double patience, struct lease_watch *watch,
               struct error *err)
{
    char seen[LEASE_OWNER_SIZE + 32] = "";

    snprintf(lease->path, sizeof(lease->path), "%s", path);
    name_owner(lease->owner);
    lease->beats = 0;
    for (int tries = 0; tries < 8; tries++) {
        int taken = place_file(lease);

        if (taken < 0)
            return error_set_errno(err, errno, "cannot write in the directory of %.300s", path);
        if (taken)
            return 1;
        if (small_file_read(path, seen, sizeof(seen)) < 0)
            continue;
        if (strcmp(seen, watch->seen) != 0) {
            snprintf(watch->seen, sizeof(watch->seen), "%s", seen);
            watch->since = seconds_now();
        }
        if (!is_dead_neighbour(seen) && seconds_now() - watch->since < patience)
            return 0;
        break_lease(lease, seen);
        watch->broken = 1;
    }
    return 0;
}

int lease_beat(struct lease *lease)
{
    char seen[LEASE_OWNER_SIZE + 32] = "";
    size_t length = strlen(lease->owner);

    if (small_file_read(lease->path, seen, sizeof(seen)) < 0 ||
        strncmp(seen, lease->owner, length) != 0)
        return -1;
    return write_file(lease->path, 0, lease->owner, ++lease->beats);
}

void lease_release(struct lease *lease)
{
    char seen[LEASE_OWNER_SIZE + 32] = "";
    size_t length = strlen(lease->owner);

    if (small_file_read(lease->path, seen, sizeof(seen)) == 0 &&
        strncmp(seen, lease->owner, length) == 0)
        unlink(lease->path);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Since Linux 5.8; headers may be older. */
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x00002000
#endif

/* Maximum number of passes through one directory, in case its listing never ends. */
enum { PASSES = 100 };

/* A removal: nothing on another device is removed; a step is counted for each file. */
struct removal {
    dev_t device;
    atomic_int_fast64_t *moved;
};

static int remove_tree(int at, const char *name, const struct removal *removal);

/* Is this a mount point? A bind mount of the same file system cannot be detected otherwise. */
static int is_mounted(int at, const char *name)
{
    struct statx status;

    return statx(at, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &status) == 0 &&
           (status.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Make one pass through a directory and count what was removed. Returns 0 or the first errno. */
static int remove_entries(DIR *directory, const struct removal *removal, int *removed)
{
    struct dirent *entry;
    int failed = 0, rc;

    *removed = 0;
    while ((entry = readdir(directory))) {
        if (is_dots(entry->d_name))
            continue;
        rc = remove_tree(dirfd(directory), entry->d_name, removal);
        *removed += rc == 0;
        failed = failed ? failed : rc;
    }
    return failed;
}

static int remove_below(int at, const char *name, const struct removal *removal)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), removed = 1;
    int failed = 0;
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (!directory) {
        failed = errno;
        if (fd >= 0)
            close(fd);
        return failed;
    }
    /* A directory that is read while entries are removed may skip some of them. */
    for (int i = 0; i < PASSES && removed > 0; i++) {
        rewinddir(directory);
        failed = remove_entries(directory, removal, &removed);
    }
    closedir(directory);
    return failed;
}

/* Remove 'name' in the directory 'at', and continue past entries that cannot be removed. Returns 0
 * or the first errno. */
static int remove_tree(int at, const char *name, const struct removal *removal)
{
    struct stat status;
    int failed = 0, directory;

    if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : errno;
    directory = S_ISDIR(status.st_mode);
    if (directory && (status.st_dev != removal->device || is_mounted(at, name)))
        return EBUSY;
    if (directory)
        failed = remove_below(at, name, removal);
    if (unlinkat(at, name, directory ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT && failed == 0)
        failed = errno;
    moved_count(removal->moved);
    return failed;
}

int directory_remove(const char *path, atomic_int_fast64_t *moved, struct error *err)
{
    struct removal removal = {.moved = moved};
    struct stat status;
    int failed;

    if (lstat(path, &status) == 0) {
        removal.device = status.st_dev;
        failed = remove_tree(AT_FDCWD, path, &removal);
    } else {
        failed = errno;
    }
    if (failed && failed != ENOENT)
        return error_set_errno(err, failed, "cannot remove %s", path);
    return 0;
}

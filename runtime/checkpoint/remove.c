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

/* Through one directory, should its list never end. */
enum { PASSES = 100 };

static int remove_tree(int at, const char *name, dev_t device);

/* Is something mounted there? A directory of the same file system tells by nothing else. */
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

/* One pass through a directory; counts what is gone. Returns 0 or the first errno. */
static int remove_entries(DIR *directory, dev_t device, int *removed)
{
    struct dirent *entry;
    int failed = 0, rc;

    *removed = 0;
    while ((entry = readdir(directory))) {
        if (is_dots(entry->d_name))
            continue;
        rc = remove_tree(dirfd(directory), entry->d_name, device);
        *removed += rc == 0;
        failed = failed ? failed : rc;
    }
    return failed;
}

static int remove_below(int at, const char *name, dev_t device)
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
    /* A list that is read while it gets shorter may leave out some of it. */
    for (int i = 0; i < PASSES && removed > 0; i++) {
        rewinddir(directory);
        failed = remove_entries(directory, device, &removed);
    }
    closedir(directory);
    return failed;
}

/* Remove what is called 'name' in the directory 'at', and go on behind what cannot be removed.
 * Returns 0 or the first errno. */
static int remove_tree(int at, const char *name, dev_t device)
{
    struct stat status;
    int failed = 0, directory;

    if (fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : errno;
    directory = S_ISDIR(status.st_mode);
    if (directory && (status.st_dev != device || is_mounted(at, name)))
        return EBUSY;
    if (directory)
        failed = remove_below(at, name, device);
    if (unlinkat(at, name, directory ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT && failed == 0)
        failed = errno;
    return failed;
}

int directory_remove(const char *path, struct error *err)
{
    struct stat status;
    int failed = lstat(path, &status) < 0 ? errno : remove_tree(AT_FDCWD, path, status.st_dev);

    if (failed && failed != ENOENT)
        return error_set_errno(err, failed, "cannot remove %s", path);
    return 0;
}

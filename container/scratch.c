/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include "lib/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { OPEN_DIRECTORIES = 16, DAY = 86400, RANDOM_LENGTH = 6 };

/* What mkdtemp chooses from. */
#define RANDOM_CHARACTERS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Its name until it is locked. */
#define DRAFT ".new-"

/* Open a directory, itself and not what a symbolic link points to. Image layers may contain
 * directories without read permission. */
static int open_directory(int at, const char *name)
{
    int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), opened;
    char path[32];

    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    chmod(path, 0700);
    opened = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(fd);
    return opened;
}

/* Remove everything in the open directory, which is closed, as far as it is on 'device'. */
static void empty(int fd, dev_t device)
{
    DIR *listed = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    struct stat info;
    bool removed = true;

    /* A directory that is read while entries are removed may skip some of them. */
    while (listed && removed) {
        removed = false;
        rewinddir(listed);
        while ((item = readdir(listed))) {
            const char *name = item->d_name;

            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
                fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || info.st_dev != device)
                continue;
            if (S_ISDIR(info.st_mode))
                empty(open_directory(fd, name), device);
            removed |= unlinkat(fd, name, S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0) == 0;
        }
    }
    if (listed)
        closedir(listed);
    else if (fd >= 0)
        close(fd);
}

/* Remove the directory 'name', which was opened as 'fd' and is closed. */
static void remove_tree(int at, const char *name, int fd)
{
    struct stat info;

    if (fstat(fd, &info) == 0)
        empty(fcntl(fd, F_DUPFD_CLOEXEC, 0), info.st_dev);
    close(fd);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* Includes the host name: if 'parent' is on a shared file system, each node cleans up its own. */
static void prefix_of(char *prefix, size_t size)
{
    struct utsname host;

    uname(&host);
    snprintf(prefix, size, "megatron-image-%u-%.64s-", (unsigned)geteuid(), host.nodename);
}

static int lock_file(int directory)
{
    int fd = openat(directory, "alive", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd >= 0 && file_lock(fd, 0) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Other processes of this user may clean up at any time, so the directory gets its final name,
 * which they look for, only after it is locked. */
int scratch_create(struct scratch *scratch, const char *parent, struct error *err)
{
    char prefix[128], draft[sizeof(scratch->path)];
    struct stat info;
    int fd;

    prefix_of(prefix, sizeof(prefix));
    scratch->alive = -1;
    scratch->path[0] = '\0';
    if (snprintf(draft, sizeof(draft), "%s/" DRAFT "%sXXXXXX", parent, prefix) >=
        (int)sizeof(draft))
        return error_set(err,
                         "the temporary directory %.100s... is too long; set ENROOT_TEMP_PATH or "
                         "TMPDIR to a shorter path",
                         parent);
    if (stat(parent, &info) == 0 && (info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX))
        return error_set(
            err,
            "all users can replace the contents of the temporary directory %.300s; run "
            "`chmod +t` on it, or set ENROOT_TEMP_PATH or TMPDIR to another one",
            parent);
    if (!mkdtemp(draft))
        return error_set_errno(err, errno, "cannot create a directory in %.300s", parent);
    fd = open_directory(AT_FDCWD, draft);
    scratch->alive = fd < 0 ? -1 : lock_file(fd);
    if (fd >= 0)
        close(fd);
    if (scratch->alive >= 0)
        snprintf(scratch->path, sizeof(scratch->path), "%s/%s%s", parent, prefix,
                 draft + strlen(draft) - RANDOM_LENGTH);
    if (scratch->alive < 0 || rename(draft, scratch->path) < 0) {
        error_set_errno(err, errno, "cannot create a directory in %.300s", parent);
        snprintf(scratch->path, sizeof(scratch->path), "%s", draft);
        scratch_destroy(scratch);
        return -1;
    }
    return 0;
}

/* Open the directory 'name' if it is this user's. */
static int open_own(int at, const char *name)
{
    int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), opened = -1;
    struct stat info;

    if (fd < 0)
        return -1;
    if (fstat(fd, &info) == 0 && info.st_uid == geteuid())
        opened = open_directory(fd, ".");
    close(fd);
    return opened;
}

void scratch_destroy(struct scratch *scratch)
{
    int fd = scratch->path[0] ? open_own(AT_FDCWD, scratch->path) : -1;

    if (fd >= 0)
        remove_tree(AT_FDCWD, scratch->path, fd);
    if (scratch->alive >= 0)
        close(scratch->alive);
    scratch->path[0] = '\0';
    scratch->alive = -1;
}

/* Remove a directory whose owner has exited: nobody holds its lock. */
static void sweep_one(int at, const char *name)
{
    int directory = open_own(at, name), fd;

    if (directory < 0)
        return;
    fd = openat(directory, "alive", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    /* Without a lock file, it is being removed, perhaps by a process that was killed halfway:
     * finish the job. */
    if (fd < 0 ? errno == ENOENT : file_lock(fd, 0) == 0)
        remove_tree(at, name, directory);
    else
        close(directory);
    if (fd >= 0)
        close(fd);
}

/* A directory without its final name belongs to a process that is about to lock it, or that was
 * killed before it could. After a day, assume the latter. */
static void sweep_draft(int at, const char *name)
{
    int fd = open_own(at, name);
    struct stat info;

    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && time(NULL) - info.st_mtime > DAY)
        remove_tree(at, name, fd);
    else
        close(fd);
}

/* Is 'name' what mkdtemp makes of 'prefix'? */
static bool is_made(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(name, prefix, length) == 0 &&
           strspn(name + length, RANDOM_CHARACTERS) == RANDOM_LENGTH &&
           name[length + RANDOM_LENGTH] == '\0';
}

void scratch_sweep(const char *parent)
{
    DIR *directory = opendir(parent);
    char prefix[128];
    struct dirent *item;

    if (!directory)
        return;
    prefix_of(prefix, sizeof(prefix));
    while ((item = readdir(directory))) {
        if (is_made(item->d_name, prefix))
            sweep_one(dirfd(directory), item->d_name);
        else if (strncmp(item->d_name, DRAFT, strlen(DRAFT)) == 0 &&
                 is_made(item->d_name + strlen(DRAFT), prefix))
            sweep_draft(dirfd(directory), item->d_name);
    }
    closedir(directory);
}

static _Thread_local long long walked;

static int add_size(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)path, (void)place;
    if (type == FTW_F)
        walked += info->st_size;
    return 0;
}

long long scratch_size(const struct scratch *scratch)
{
    walked = 0;
    nftw(scratch->path, add_size, OPEN_DIRECTORIES, FTW_PHYS | FTW_MOUNT);
    return walked;
}

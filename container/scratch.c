/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)place;
    /* Image layers may contain directories without read permission. */
    if (type == FTW_DNR || type == FTW_D)
        chmod(path, 0700);
    if (type == FTW_DP || type == FTW_DNR)
        rmdir(path);
    else if (type != FTW_D)
        unlink(path);
    return 0;
}

static int open_up(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)place;
    if (type == FTW_D || type == FTW_DNR)
        chmod(path, 0700);
    return 0;
}

static void remove_tree(const char *path)
{
    /* Top-down first: a directory without read permission cannot be walked bottom-up. */
    nftw(path, open_up, OPEN_DIRECTORIES, FTW_PHYS | FTW_MOUNT);
    nftw(path, remove_one, OPEN_DIRECTORIES, FTW_PHYS | FTW_MOUNT | FTW_DEPTH);
}

/* Includes the host name: if 'parent' is on a shared file system, each node cleans up its own. */
static void prefix_of(char *prefix, size_t size)
{
    struct utsname host;

    uname(&host);
    snprintf(prefix, size, "megatron-image-%u-%.64s-", (unsigned)geteuid(), host.nodename);
}

static int lock_file(const char *directory)
{
    char path[2048 + 16];
    int fd;

    snprintf(path, sizeof(path), "%s/alive", directory);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
    const char *number;

    prefix_of(prefix, sizeof(prefix));
    scratch->alive = -1;
    scratch->path[0] = '\0';
    if (snprintf(draft, sizeof(draft), "%s/" DRAFT "%sXXXXXX", parent, prefix) >=
        (int)sizeof(draft))
        return error_set(err,
                         "the temporary directory %.100s... is too long; set ENROOT_TEMP_PATH or "
                         "TMPDIR to a shorter path",
                         parent);
    if (!mkdtemp(draft))
        return error_set_errno(err, errno, "cannot create a directory in %.300s", parent);
    number = draft + strlen(draft) - 6;
    scratch->alive = lock_file(draft);
    if (scratch->alive >= 0)
        snprintf(scratch->path, sizeof(scratch->path), "%s/%s%s", parent, prefix, number);
    if (scratch->alive < 0 || rename(draft, scratch->path) < 0) {
        error_set_errno(err, errno, "cannot create a directory in %.300s", parent);
        snprintf(scratch->path, sizeof(scratch->path), "%s", draft);
        scratch_destroy(scratch);
        return -1;
    }
    return 0;
}

void scratch_destroy(struct scratch *scratch)
{
    if (scratch->path[0])
        remove_tree(scratch->path);
    if (scratch->alive >= 0)
        close(scratch->alive);
    scratch->path[0] = '\0';
    scratch->alive = -1;
}

/* Remove a directory whose owner has exited: nobody holds its lock. */
static void sweep_one(const char *path)
{
    char lock[4096];
    struct stat info;
    int fd;

    if (lstat(path, &info) < 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        return;
    snprintf(lock, sizeof(lock), "%s/alive", path);
    fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    /* Without a lock file, it is being removed, perhaps by a process that was killed halfway:
     * finish the job. */
    if (fd < 0) {
        if (errno == ENOENT)
            remove_tree(path);
        return;
    }
    if (file_lock(fd, 0) == 0)
        remove_tree(path);
    close(fd);
}

/* A directory without its final name belongs to a process that is about to lock it, or that was
 * killed before it could. After a day, assume the latter. */
static void sweep_draft(const char *path)
{
    struct stat info;

    if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
        time(NULL) - info.st_mtime > DAY)
        remove_tree(path);
}

/* Is 'name' what mkdtemp makes of 'prefix'? */
static int is_made(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(name, prefix, length) == 0 &&
           strspn(name + length, RANDOM_CHARACTERS) == RANDOM_LENGTH &&
           name[length + RANDOM_LENGTH] == '\0';
}

void scratch_sweep(const char *parent)
{
    DIR *directory = opendir(parent);
    char prefix[128], path[2048];
    struct dirent *item;

    if (!directory)
        return;
    prefix_of(prefix, sizeof(prefix));
    while ((item = readdir(directory))) {
        if (snprintf(path, sizeof(path), "%s/%s", parent, item->d_name) >= (int)sizeof(path))
            continue;
        if (is_made(item->d_name, prefix))
            sweep_one(path);
        else if (strncmp(item->d_name, DRAFT, strlen(DRAFT)) == 0 &&
                 is_made(item->d_name + strlen(DRAFT), prefix))
            sweep_draft(path);
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

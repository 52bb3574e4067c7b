#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_DIRECTORIES = 16 };

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)place;
    /* Layers of images hold directories without permission to read them. */
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
    /* From above first: what cannot be read cannot be walked from below. */
    nftw(path, open_up, OPEN_DIRECTORIES, FTW_PHYS | FTW_MOUNT);
    nftw(path, remove_one, OPEN_DIRECTORIES, FTW_PHYS | FTW_MOUNT | FTW_DEPTH);
}

static void prefix_of(char *prefix, size_t size)
{
    snprintf(prefix, size, "megatron-image-%u-", (unsigned)geteuid());
}

int scratch_create(struct scratch *scratch, const char *parent, struct error *err)
{
    char prefix[64], lock[2048 + 16];

    prefix_of(prefix, sizeof(prefix));
    scratch->alive = -1;
    if (snprintf(scratch->path, sizeof(scratch->path), "%s/%sXXXXXX", parent, prefix) >=
        (int)sizeof(scratch->path))
        return error_set(err, "the path %.100s... is too long", parent);
    if (!mkdtemp(scratch->path))
        return error_set_errno(err, errno, "cannot make a directory in %.300s", parent);
    snprintf(lock, sizeof(lock), "%s/alive", scratch->path);
    scratch->alive = open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (scratch->alive < 0 || flock(scratch->alive, LOCK_EX | LOCK_NB) < 0) {
        error_set_errno(err, errno, "cannot write in %.300s", scratch->path);
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

static void sweep_one(const char *path)
{
    char lock[4096];
    struct stat info;
    int fd;

    if (lstat(path, &info) < 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        return;
    snprintf(lock, sizeof(lock), "%s/alive", path);
    fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    /* Without a lock file it was just made, or is all but gone; rmdir removes it if it is empty. */
    if (fd < 0) {
        rmdir(path);
        return;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_tree(path);
    close(fd);
}

void scratch_sweep(const char *parent)
{
    DIR *directory = opendir(parent);
    char prefix[64], path[2048];
    struct dirent *item;

    if (!directory)
        return;
    prefix_of(prefix, sizeof(prefix));
    while ((item = readdir(directory))) {
        if (strncmp(item->d_name, prefix, strlen(prefix)) != 0)
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", parent, item->d_name) < (int)sizeof(path))
            sweep_one(path);
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

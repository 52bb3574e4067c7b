/* SPDX-License-Identifier: Apache-2.0 */
#include "trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check(const char *path, const struct stat *info, enum trusted_kind kind,
                 struct error *err)
{
    bool own = info->st_uid == geteuid();
    bool is_open = (info->st_mode & S_IWOTH) || ((info->st_mode & S_IWGRP) && !own);

    if (!S_ISDIR(info->st_mode))
        return error_set(err, "%.300s is not a directory%s", path,
                         S_ISLNK(info->st_mode) ? " but a symbolic link" : "");
    if (!own && info->st_uid != 0)
        return error_set(err, "%.300s belongs to user %u, not to you", path,
                         (unsigned)info->st_uid);
    if (is_open && kind == TRUSTED_PRIVATE)
        return error_set(err, "other users can write to %.300s; run `chmod go-w` on it", path);
    if (is_open && !(info->st_mode & S_ISVTX))
        return error_set(
            err, "other users can replace the contents of %.300s; run `chmod +t` on it", path);
    return 0;
}

int trusted_descriptor(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? openat(at, path, O_PATH | O_NOFOLLOW | O_CLOEXEC) : fd;
}

int trusted_directory_open(int at, const char *path, enum trusted_kind kind, struct error *err)
{
    int fd = trusted_descriptor(at, path), number;
    struct stat info;

    if (fd >= 0 && fstat(fd, &info) == 0) {
        if (check(path, &info, kind, err) == 0)
            return fd;
        number = EPERM;
    } else {
        number = errno;
        error_set_errno(err, number, "cannot open the directory %.300s", path);
    }
    if (fd >= 0)
        close(fd);
    errno = number;
    return -1;
}

/* Check all parents of 'path', which are themselves followed if they are symbolic links. */
static int check_parents(const char *path, struct error *err)
{
    char parent[PATH_MAX];
    struct stat info;

    snprintf(parent, sizeof(parent), "%s", path);
    for (char *slash = strrchr(parent, '/'); slash; slash = strrchr(parent, '/')) {
        const char *name = slash == parent ? "/" : parent;

        *slash = '\0';
        /* One that cannot be examined is not one that everyone can write to. */
        if (stat(name, &info) == 0 && (info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX))
            return error_set(err,
                             "all users can replace the contents of %.300s, which contains %.300s; "
                             "run `chmod +t` on it, or use another directory",
                             name, path);
    }
    return 0;
}

int trusted_parents(const char *path, struct error *err)
{
    char resolved[PATH_MAX];

    if (check_parents(path, err) < 0)
        return -1;
    return realpath(path, resolved) ? check_parents(resolved, err) : 0;
}

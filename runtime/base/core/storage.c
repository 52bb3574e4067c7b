/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const int64_t flush_bytes = 32 << 20;

ssize_t file_read_at(int fd, void *out, size_t size, int64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = pread(fd, (char *)out + done, size - done, offset + (int64_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* fsync flushes the rest, or everything if the file system has no sync_file_range. The kernel
 * reports a disk error only once, so every call is checked. */
int file_flush(int fd, void (*moved)(void *context), void *context)
{
    const unsigned how =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    struct stat status;

    if (fstat(fd, &status) < 0)
        return -1;
    for (int64_t at = 0; at < status.st_size; at += flush_bytes) {
        if (sync_file_range(fd, at, flush_bytes, how) < 0) {
            if (errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == EOPNOTSUPP)
                break;
            return -1;
        }
        moved(context);
    }
    if (fsync(fd) < 0)
        return -1;
    moved(context);
    return 0;
}

int file_make_directories(const char *path, mode_t mode)
{
    char parent[PATH_MAX];
    size_t length = strlen(path);

    if (length >= sizeof(parent)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        struct stat status;
        int number;

        if (parent[i] != '/' && parent[i] != '\0')
            continue;
        parent[i] = '\0';
        /* Look it up first: an automounter mounts on lookup what it refuses to create. And look
         * again after a failure: another process may have created it. */
        if ((stat(parent, &status) < 0 || !S_ISDIR(status.st_mode)) && mkdir(parent, mode) < 0) {
            number = errno;
            if (stat(parent, &status) < 0 || !S_ISDIR(status.st_mode)) {
                errno = number == EEXIST ? ENOTDIR : number;
                return -1;
            }
        }
        parent[i] = path[i];
    }
    return 0;
}

/* The length of 'path' without its last component, 0 if it has only one component. */
static size_t parent_length(const char *path, size_t length)
{
    while (length > 0 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

size_t file_existing_length(const char *path)
{
    char start[PATH_MAX];
    size_t length = strlen(path);

    if (length >= sizeof(start))
        return length;
    memcpy(start, path, length + 1);
    while (length > 0 && access(start, F_OK) < 0) {
        length = parent_length(start, length);
        start[length] = '\0';
    }
    return length;
}

void file_remove_created(const char *path, size_t existing)
{
    char start[PATH_MAX];
    size_t length = strlen(path);

    if (length >= sizeof(start))
        return;
    memcpy(start, path, length + 1);
    while (length > existing && (rmdir(start) == 0 || errno == ENOENT || errno == ENAMETOOLONG)) {
        length = parent_length(start, length);
        start[length] = '\0';
    }
}

int64_t file_free_space(const char *path)
{
    struct statvfs disk;

    return statvfs(path, &disk) < 0 ? -1 : (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
}

void file_refresh_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
}

int file_is_same(const char *path, const char *other)
{
    struct stat a, b;

    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

int file_error_may_pass(int number)
{
    static const int passing[] = {
        EIO,          ESTALE,    ETIMEDOUT,    ENOMEM,   EMFILE,      ENFILE,    EINTR,
        EAGAIN,       ENOSPC,    EDQUOT,       ENETDOWN, ENETUNREACH, ENETRESET, ECONNRESET,
        ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH, ENOTCONN, ENOLINK,     ESHUTDOWN, EREMOTEIO};

    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        if (number == passing[i])
            return 1;
    return 0;
}

int file_path_error(struct error *err)
{
    if (err && !file_error_may_pass(errno))
        err->code = ERROR_USAGE;
    return -1;
}

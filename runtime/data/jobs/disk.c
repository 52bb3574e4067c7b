/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "disk.h"
#include "base/core/storage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int disk_path(char *buffer, struct error *err, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(buffer, DISK_PATH, format, args);
    va_end(args);
    if (length < 0 || length >= DISK_PATH)
        return error_set(err, "the path %.200s... is too long; use a shorter one", buffer);
    return 0;
}

static int write_failed(const char *path, struct error *err)
{
    return error_set_errno(err, errno, "cannot write %s", path);
}

int disk_writev(int fd, struct iovec *parts, int count, const char *path, struct error *err)
{
    while (count > 0) {
        ssize_t done = writev(fd, parts, count);

        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = ENOSPC;
        if (done <= 0)
            return write_failed(path, err);
        while (count > 0 && (size_t)done >= parts->iov_len) {
            done -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
    return 0;
}

int disk_pwrite(int fd, const void *data, size_t size, int64_t offset, const char *path,
                struct error *err)
{
    return file_write_at(fd, data, size, offset) < 0 ? write_failed(path, err) : 0;
}

int disk_pread(int fd, void *data, size_t size, int64_t offset, const char *path, struct error *err)
{
    ssize_t got = file_read_at(fd, data, size, offset);

    if (got < 0)
        return error_set_errno(err, errno, "cannot read %s", path);
    return (size_t)got < size;
}

int disk_read_file(const char *path, size_t limit, struct file_bytes *bytes, struct error *err)
{
    if (file_read(path, limit, bytes, err) == 0)
        return 0;
    return errno == ENOENT ? 1 : -1;
}

int disk_check_directory(const char *path, struct error *err)
{
    char directory[DISK_PATH];
    const char *slash = strrchr(path, '/');

    if (disk_path(directory, err, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") <
        0)
        return -1;
    if (access(directory, W_OK | X_OK) == 0)
        return 0;
    error_set_errno(err, errno, "cannot write to directory %s", directory);
    return file_path_error(err);
}

bool disk_exists(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0;
}

bool disk_is_gone(const char *path)
{
    struct stat status;

    return stat(path, &status) < 0 && errno == ENOENT;
}

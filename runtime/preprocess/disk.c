#include "config.h"
#include "disk.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int disk_path(char *buffer, struct error *err, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(buffer, DISK_PATH, format, args);
    va_end(args);
    if (length < 0 || length >= DISK_PATH)
        return error_set(err, "the path %.200s... is too long", buffer);
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

/* link() never replaces a file; where a file system has no links, rename() must do. */
static int place_first(const char *temporary, const char *path)
{
    if (link(temporary, path) == 0 || errno == EEXIST)
        return unlink(temporary);
    if (access(path, F_OK) == 0)
        return unlink(temporary);
    return rename(temporary, path);
}

static int write_and_place(const char *path, const void *data, size_t size,
                           int (*place)(const char *, const char *), struct error *err)
{
    char temporary[DISK_PATH], host[65] = "";
    int fd;

    gethostname(host, sizeof(host) - 1);
    if (disk_path(temporary, err, "%s.%s.%ld.tmp", path, host, (long)getpid()) < 0)
        return -1;
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot create %s", temporary);
    if (disk_pwrite(fd, data, size, 0, temporary, err) < 0) {
        close(fd);
        unlink(temporary);
        return -1;
    }
    if (fsync(fd) < 0 || close(fd) < 0 || place(temporary, path) < 0) {
        write_failed(path, err);
        unlink(temporary);
        return -1;
    }
    return 0;
}

int disk_write_file(const char *path, const void *data, size_t size, struct error *err)
{
    return write_and_place(path, data, size, rename, err);
}

int disk_write_first(const char *path, const void *data, size_t size, struct error *err)
{
    return write_and_place(path, data, size, place_first, err);
}

int disk_read_file(const char *path, size_t limit, unsigned char **data, size_t *size,
                   struct error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

    *data = NULL;
    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0 || fstat(fd, &status) < 0) {
        error_set_errno(err, errno, "cannot open %s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (status.st_size > (off_t)limit) {
        close(fd);
        return error_set(err, "%s has %lld bytes, more than makes sense", path,
                         (long long)status.st_size);
    }
    *size = (size_t)status.st_size;
    *data = malloc(*size + 1);
    rc = *data ? disk_pread(fd, *data, *size, 0, path, err) : error_set(err, "out of memory");
    close(fd);
    if (rc == 0) {
        (*data)[*size] = '\0';
        return 0;
    }
    free(*data);
    *data = NULL;
    return rc < 0 ? -1 : error_set(err, "%s became shorter while it was read", path);
}

int disk_sync_directory(const char *path, struct error *err)
{
    char directory[DISK_PATH];
    const char *slash = strrchr(path, '/');
    int fd, rc;

    if (disk_path(directory, err, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") <
        0)
        return -1;
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", directory);
    rc = fsync(fd);
    /* Some network file systems have no such call for directories. */
    if (rc < 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        error_set_errno(err, errno, "cannot sync %s", directory);
    else
        rc = 0;
    close(fd);
    return rc;
}

static void remove_level(const char *path, int deeper)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char child[DISK_PATH];

    while (directory && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (disk_path(child, NULL, "%s/%s", path, entry->d_name) < 0)
            continue;
        if (unlink(child) < 0 && (errno == EISDIR || errno == EPERM) && deeper)
            remove_level(child, 0);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

void disk_remove_tree(const char *path)
{
    remove_level(path, 1);
}

int disk_exists(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0;
}

int disk_is_gone(const char *path)
{
    struct stat status;

    return stat(path, &status) < 0 && errno == ENOENT;
}

double disk_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void disk_sleep(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&time, NULL);
}

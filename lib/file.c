/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "clock.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Grow the buffer to hold at least one more byte than 'length', up to 'limit' + 1. */
static int make_room(struct file_bytes *bytes, size_t *capacity, size_t limit)
{
    size_t wanted = *capacity ? *capacity * 2 : 65536;
    char *data;

    if (wanted > limit + 2)
        wanted = limit + 2;
    data = realloc(bytes->data, wanted);
    if (!data)
        return -1;
    bytes->data = data;
    *capacity = wanted;
    return 0;
}

static int read_all(int fd, const char *path, size_t capacity, size_t limit,
                    struct file_bytes *bytes, struct error *err)
{
    for (;;) {
        ssize_t got;

        if (bytes->length + 1 >= capacity && make_room(bytes, &capacity, limit) < 0)
            return error_set(err, "%s: out of memory", path);
        got = read(fd, bytes->data + bytes->length, capacity - 1 - bytes->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(err, errno, "cannot read %s", path);
        if (got == 0)
            break;
        bytes->length += (size_t)got;
        if (bytes->length > limit) {
            error_set(err,
                      "%s is larger than the limit of %zu bytes; check that it is the right file",
                      path, limit);
            errno = EFBIG;
            return -1;
        }
    }
    bytes->data[bytes->length] = '\0';
    return 0;
}

int file_read_fd(int fd, const char *name, size_t limit, struct file_bytes *bytes,
                 struct error *err)
{
    struct stat status;
    size_t capacity = 0;
    int rc, number;

    memset(bytes, 0, sizeof(*bytes));
    /* Read a regular file in one call: request one byte more than its size, to detect its end. */
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (size_t)status.st_size <= limit) {
        bytes->data = malloc((size_t)status.st_size + 2);
        capacity = bytes->data ? (size_t)status.st_size + 2 : 0;
    }
    rc = read_all(fd, name, capacity, limit, bytes, err);
    number = errno;
    if (rc < 0)
        file_bytes_clear(bytes);
    errno = number;
    return rc;
}

int file_read(const char *path, size_t limit, struct file_bytes *bytes, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc, number;

    memset(bytes, 0, sizeof(*bytes));
    if (fd < 0) {
        number = errno;
        error_set_errno(err, number, "cannot open %s", path);
        errno = number;
        return -1;
    }
    rc = file_read_fd(fd, path, limit, bytes, err);
    number = errno;
    close(fd);
    errno = number;
    return rc;
}

void file_bytes_clear(struct file_bytes *bytes)
{
    free(bytes->data);
    memset(bytes, 0, sizeof(*bytes));
}

ssize_t file_read_text_fd(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got = fd < 0 ? -1 : 1;

    while (got > 0 && used < size - 1) {
        got = read(fd, text + used, size - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == EINTR)
            got = 1;
    }
    if (fd >= 0)
        close(fd);
    text[used] = '\0';
    return got < 0 && used == 0 ? -1 : (ssize_t)used;
}

ssize_t file_read_text(const char *path, char *text, size_t size)
{
    return file_read_text_fd(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), text,
                             size);
}

ssize_t file_read_line(const char *path, char *line, size_t size)
{
    ssize_t got = file_read_text(path, line, size);
    size_t length = strcspn(line, "\n");

    line[length] = '\0';
    return got < 0 ? -1 : (ssize_t)length;
}

int file_write_at(int fd, const void *data, size_t size, int64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t put = pwrite(fd, (const char *)data + done, size - done, offset + (int64_t)done);

        if (put < 0 && errno == EINTR)
            continue;
        if (put == 0)
            errno = ENOSPC;
        if (put <= 0)
            return -1;
        done += (size_t)put;
    }
    return 0;
}

/* link() never replaces a file. File systems without hard links get a rename. */
static int keep_first(const char *draft, const char *path)
{
    if (link(draft, path) == 0 || errno == EEXIST)
        return unlink(draft);
    if (access(path, F_OK) == 0)
        return unlink(draft);
    return rename(draft, path);
}

static int name_draft(char draft[PATH_MAX], const char *path, unsigned flags, struct error *err)
{
    char host[65] = "";
    int length;

    gethostname(host, sizeof(host) - 1);
    if (flags & FILE_SINGLE_WRITER)
        length = snprintf(draft, PATH_MAX, "%s.new", path);
    else
        length = snprintf(draft, PATH_MAX, "%s.%s.%ld.tmp", path, host, (long)gettid());
    return length < PATH_MAX
               ? 0
               : error_set(err, "the path %.200s... is too long; use a shorter one", path);
}

int file_sync_parent(const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX];

    if (!slash)
        return file_sync_directory(".", err);
    snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path) + 1, path);
    return file_sync_directory(parent, err);
}

/* A file that is renamed to the name of a pipe or a device would take its place. /dev/stdout is a
 * link to whatever it is. */
static bool takes_bytes(const char *path)
{
    struct stat found;

    if (stat(path, &found) < 0 || S_ISDIR(found.st_mode))
        return false;
    return !S_ISREG(found.st_mode) ||
           (strncmp(path, "/dev/", 5) == 0 && lstat(path, &found) == 0 && S_ISLNK(found.st_mode));
}

static int write_through(const char *path, const void *data, size_t size, struct error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY), failed = fd < 0 ? errno : 0;
    size_t done = 0;

    while (!failed && done < size) {
        ssize_t put = write(fd, (const char *)data + done, size - done);

        if (put >= 0)
            done += (size_t)put;
        else if (errno != EINTR)
            failed = errno;
    }
    if (fd >= 0 && close(fd) < 0 && !failed)
        failed = errno;
    return failed ? error_set_errno(err, failed, "cannot write %s", path) : 0;
}

int file_write_whole(const char *path, const void *data, size_t size, unsigned flags,
                     struct error *err)
{
    char draft[PATH_MAX], target[PATH_MAX];
    struct stat found;
    int fd, failed = 0;

    if (takes_bytes(path))
        return write_through(path, data, size, err);
    if (!(flags & FILE_KEEP) && lstat(path, &found) == 0 && S_ISLNK(found.st_mode) &&
        realpath(path, target))
        path = target;
    if (name_draft(draft, path, flags, err) < 0)
        return -1;
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot write %s", path);
    if (file_write_at(fd, data, size, 0) < 0 || fsync(fd) < 0)
        failed = errno;
    if (close(fd) < 0 && !failed)
        failed = errno;
    if (!failed && (flags & FILE_KEEP ? keep_first(draft, path) : rename(draft, path)) < 0)
        failed = errno;
    if (failed) {
        unlink(draft);
        return error_set_errno(err, failed, "cannot write %s", path);
    }
    return flags & FILE_SYNC_DIRECTORY ? file_sync_parent(path, err) : 0;
}

int file_sync_directory(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        rc = error_set_errno(err, errno, "cannot sync %s", path);
    close(fd);
    return rc;
}

int file_lock(int fd, double seconds)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    double until = clock_now() + seconds, pause = 0.002;

    while (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return -1;
        if (clock_now() >= until)
            return 1;
        clock_sleep(pause);
        pause = pause < 0.064 ? 2 * pause : pause;
    }
    return 0;
}

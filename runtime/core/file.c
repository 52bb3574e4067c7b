#include "config.h"

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t flush_bytes = 32 << 20;

/* Grow the buffer to hold at least one byte more than 'length', up to 'limit' and one. */
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
            error_set(err, "%s is larger than %zu bytes, the most that is read", path, limit);
            errno = EFBIG;
            return -1;
        }
    }
    bytes->data[bytes->length] = '\0';
    return 0;
}

int file_read(const char *path, size_t limit, struct file_bytes *bytes, struct error *err)
{
    struct stat status;
    size_t capacity = 0;
    int fd, rc, number;

    memset(bytes, 0, sizeof(*bytes));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    /* A plain file is read in one go: its size and the byte that shows its end. */
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (size_t)status.st_size <= limit) {
        bytes->data = malloc((size_t)status.st_size + 2);
        capacity = bytes->data ? (size_t)status.st_size + 2 : 0;
    }
    rc = read_all(fd, path, capacity, limit, bytes, err);
    number = errno;
    close(fd);
    if (rc < 0)
        file_bytes_clear(bytes);
    errno = number;
    return rc;
}

void file_bytes_clear(struct file_bytes *bytes)
{
    free(bytes->data);
    memset(bytes, 0, sizeof(*bytes));
}

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

/* fsync does what is left, and all of it where the system knows no parts. An error of the disk is
 * told only once. */
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

int file_is_same(const char *path, const char *other)
{
    struct stat a, b;

    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

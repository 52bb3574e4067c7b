/* SPDX-License-Identifier: Apache-2.0 */
#include "append_file.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HELD = 1 << 20 };

struct append_file {
    int fd;
    bool lost;
    char *path, *held;
    size_t size, written; /* buffered bytes, and how many of them are in the file */
};

/* Does the file end in the middle of a line, because the node that wrote it was lost, or because
 * its disk was full? */
static bool is_torn(const struct append_file *file)
{
    struct stat status;
    char last = '\n';
    int fd;

    if (fstat(file->fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        return false;
    fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (pread(fd, &last, 1, status.st_size - 1) != 1)
        last = '\n';
    close(fd);
    return last != '\n';
}

struct append_file *append_file_open(const char *path, int fresh, struct error *err)
{
    struct append_file *file = xcalloc(1, sizeof(*file));

    file->path = xstrdup(path);
    file->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (fresh ? O_EXCL : 0), 0666);
    if (file->fd < 0) {
        error_set_errno(err, errno, "cannot write %s", path);
        free(file->path);
        free(file);
        return NULL;
    }
    if (!fresh && is_torn(file))
        append_file_add(file, "\n", 1);
    return file;
}

void append_file_add(struct append_file *file, const void *record, size_t size)
{
    if (file->size + size > MOST_HELD) {
        file->lost = true;
        return;
    }
    file->held = xrealloc(file->held, file->size + size, 1);
    memcpy(file->held + file->size, record, size);
    file->size += size;
}

int append_file_flush(struct append_file *file, struct error *err)
{
    while (file->written < file->size) {
        ssize_t wrote = write(file->fd, file->held + file->written, file->size - file->written);

        if (wrote > 0)
            file->written += (size_t)wrote;
        else if (wrote == 0 || errno != EINTR)
            return error_set_errno(err, wrote == 0 ? EIO : errno, "cannot write to %s", file->path);
    }
    file->size = file->written = 0;
    return 0;
}

int append_file_close(struct append_file *file, struct error *err)
{
    int rc;

    if (!file)
        return 0;
    rc = append_file_flush(file, err);
    if (rc == 0 && file->lost)
        rc = error_set(err,
                       "%s: records were lost because writing kept failing; check the file system "
                       "and its free space",
                       file->path);
    if (close(file->fd) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write to %s", file->path);
    free(file->held);
    free(file->path);
    free(file);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_file.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "lib/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int shared_file_read(int at, const char *path, uid_t owner, char *text, size_t size)
{
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;

    if (fd >= 0 && (fstat(fd, &info) < 0 || (info.st_uid != owner && info.st_uid != 0))) {
        close(fd);
        fd = -1;
    }
    return file_read_text_fd(fd, text, size) < 0 ? -1 : 0;
}

/* Returns 0 or -1 (errno). */
static int write_new(int at, const char *path, const char *text)
{
    int fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = -1;

    if (fd < 0)
        return -1;
    if (file_write_at(fd, text, strlen(text), 0) == 0 && fsync(fd) == 0)
        rc = 0;
    if (close(fd) < 0)
        rc = -1;
    return rc;
}

int shared_file_replace(int at, const char *path, const char *work, const char *text,
                        struct error *err)
{
    char draft[4096], owner[OWNER_SIZE];
    int rc = -1;

    for (int tries = 0; rc < 0 && tries < 8; tries++) {
        owner_name(owner);
        if (snprintf(draft, sizeof(draft), "%s/record@%s.new", work, owner) >= (int)sizeof(draft))
            return error_set(
                err, "the path %.100s... of the image cache is too long; use a shorter one", work);
        rc = write_new(at, draft, text);
        if (rc == 0)
            rc = renameat(at, draft, at, path);
        if (rc < 0) {
            error_set_errno(err, errno, "cannot write %.300s", path);
            /* If the draft is gone, a sweep considered its owner dead: try again. */
            if (unlinkat(at, draft, 0) == 0 || errno != ENOENT)
                return -1;
        }
    }
    return rc;
}

int shared_directory_create(const char *directory, const char *variable, struct error *err)
{
    if (file_make_directories(directory, 0700) == 0)
        return 0;
    error_set_errno(err, errno, "cannot create the directory %.300s", directory);
    return error_append(err, "; set %s to a directory that you can write to", variable);
}

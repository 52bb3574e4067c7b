/* SPDX-License-Identifier: Apache-2.0 */
#include "squashfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Offsets in the superblock; all numbers are little-endian. */
enum { SUPERBLOCK = 96, AT_MAJOR = 28, AT_MINOR = 30, AT_BYTES_USED = 40 };

static uint64_t little_endian(const unsigned char *bytes, int count)
{
    uint64_t value = 0;

    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

int squashfs_check(int fd, const char *path, int64_t *size, struct error *err)
{
    unsigned char block[SUPERBLOCK];
    struct stat info;
    uint64_t used;
    ssize_t got;

    if (fstat(fd, &info) < 0)
        return error_set_errno(err, errno, "cannot read %.300s", path);
    if (!S_ISREG(info.st_mode))
        return error_set(err, "%.300s is not a file; name a squashfs image", path);
    got = pread(fd, block, sizeof(block), 0);
    if (got < 0)
        return error_set_errno(err, errno, "cannot read %.300s", path);
    if (got < SUPERBLOCK || memcmp(block, "hsqs", 4) != 0)
        return error_set(
            err, "%.300s is not a squashfs image; create one with `megatron image import`", path);
    if (little_endian(block + AT_MAJOR, 2) != 4 || little_endian(block + AT_MINOR, 2) != 0)
        return error_set(err,
                         "%.300s is squashfs %d.%d, but only 4.0 is supported; create it again "
                         "with a current mksquashfs",
                         path, (int)little_endian(block + AT_MAJOR, 2),
                         (int)little_endian(block + AT_MINOR, 2));
    used = little_endian(block + AT_BYTES_USED, 8);
    if (used < SUPERBLOCK || used > (uint64_t)info.st_size)
        return error_set(err,
                         "%.300s is truncated: %" PRId64 " of %" PRIu64 " bytes; import it again",
                         path, (int64_t)info.st_size, used);
    if (size)
        *size = info.st_size;
    return 0;
}

int squashfs_find(const char *name, char *path, size_t size, struct error *err)
{
    char resolved[PATH_MAX];
    int fd, rc;

    if (!realpath(name, resolved))
        return error_set_errno(err, errno, "cannot open %.300s", name);
    for (const char *c = resolved; *c; c++)
        if (strchr("'\"`$\\\n", *c))
            return error_set(err,
                             "the path %.300s contains a character that Enroot would evaluate; "
                             "rename the file",
                             resolved);
    fd = open(resolved, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %.300s", resolved);
    rc = squashfs_check(fd, resolved, NULL, err);
    close(fd);
    if (rc < 0)
        return -1;
    if (snprintf(path, size, "%s", resolved) >= (int)size)
        return error_set(err, "the path %.100s... is too long; use a shorter one", resolved);
    return 0;
}

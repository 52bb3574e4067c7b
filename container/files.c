/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <fcntl.h>
#include <unistd.h>

int small_file_read_open(int fd, char *text, size_t size)
{
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got < 0 ? -1 : 0;
}

int small_file_read(const char *path, char *text, size_t size)
{
    return small_file_read_open(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), text, size);
}

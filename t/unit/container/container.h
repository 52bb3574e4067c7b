/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the unit tests of container/: a temporary directory, files in it, an image. */
#ifndef MEGATRON_TEST_CONTAINER_H
#define MEGATRON_TEST_CONTAINER_H

#include "tap.h"
#include "lib/error.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum { IMAGE_BYTES = 4096 };

static struct error err;
__attribute__((unused)) static char directory[] = "/tmp/megatron-test-XXXXXX";

/* The beginning of a squashfs image whose header claims 4000 bytes, and IMAGE_BYTES of it. */
__attribute__((unused)) static const unsigned char small_image[IMAGE_BYTES] = {
    [0] = 'h', [1] = 's', [2] = 'q', [3] = 's', [28] = 4, [40] = 0xA0, [41] = 0x0F};

__attribute__((unused)) static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (write(fd, bytes, size) != (ssize_t)size)
        ok(0, "cannot write %s", path);
    close(fd);
}

/* The last call: remove the directory, and print the plan. */
__attribute__((unused)) static int finish(void)
{
    if (fork() == 0)
        execlp("rm", "rm", "-rf", directory, (char *)NULL);
    wait(NULL);
    return done_testing();
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the fuzz targets. */
#ifndef MEGATRON_FUZZ_H
#define MEGATRON_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A directory for the files of this process; the campaign creates and removes it. */
static inline const char *fuzz_place(void)
{
    const char *place = getenv("FUZZ_PLACE");

    return place ? place : "/tmp";
}

/* Write a file named 'name' in 'place'. */
static inline void fuzz_put(const char *place, const char *name, const void *data, size_t size)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s%s", place, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* Every failure must come with a reason. */
static inline void fuzz_check(int failed, const struct error *err)
{
    if (failed && err->text[0] == '\0')
        abort();
}

#endif

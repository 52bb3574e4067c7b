/* What fuzz targets share. */
#ifndef MEGATRON_FUZZ_H
#define MEGATRON_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A directory for the files of this process, which the campaign makes and removes. */
static inline const char *fuzz_place(void)
{
    const char *place = getenv("FUZZ_PLACE");

    return place ? place : "/tmp";
}

/* Write a file, at 'place' with 'name' put behind it. */
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

/* Whatever fails says why. */
static inline void fuzz_check(int failed, const struct error *err)
{
    if (failed && err->text[0] == '\0')
        abort();
}

#endif

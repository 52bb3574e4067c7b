/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of images on the node's local disk, for sites whose shared file system is slow. */
#ifndef MEGATRON_STAGE_H
#define MEGATRON_STAGE_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "container/stop.h"

struct stage_request {
    const char *directory;
    int64_t limit;           /* total bytes of this user's copies; 0: no limit */
    const char *key, *image; /* its name, and its path */
    double timeout;          /* seconds; 0: none */
    void (*say)(void *argument, const char *line); /* progress; may be NULL */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Find or create the copy of an image in this user's part of the directory; this user's least
 * recently used copies are removed until all of them fit. 'path' gets its path. Returns 0, or -1 if
 * there is no space or it takes too long: then start the original. */
int image_stage(const struct stage_request *request, char *path, size_t size, struct error *err);

#endif

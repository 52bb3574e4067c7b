/* A copy of an image on the node's own disk, where a shared file system is slow. */
#ifndef MEGATRON_STAGE_H
#define MEGATRON_STAGE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "stop.h"

struct stage_request {
    const char *directory;
    int64_t limit;           /* bytes that this user's copies may have; 0: any */
    const char *key, *image; /* what it is called, and where it is */
    double timeout;          /* seconds */
    void (*say)(void *argument, const char *line); /* progress; may be NULL */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Make the copy of an image in this user's part of the directory, or find it there; the longest
 * unused copies of this user's go until all of them fit. 'path' gets its name. Returns 0, or -1
 * where there is no room or it takes too long: then start the original. */
int image_stage(const struct stage_request *request, char *path, size_t size, struct error *err);

#endif

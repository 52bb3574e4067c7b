/* SPDX-License-Identifier: Apache-2.0 */
/* The importer: the program that turns an image's name into a squashfs file, run as the user.
 *
 * It is `megatron image`, or the program that importer=PATH in plugstack.conf names; the interface
 * is described in megatron-importer(7):
 *
 *     PROGRAM get URI     print the path of the squashfs file on standard output
 *     PROGRAM release     the step is over; remove what it no longer needs
 *
 * Lines on standard error are progress, which is relayed, or the reason of a failure. */
#ifndef MEGATRON_IMPORTER_H
#define MEGATRON_IMPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "lib/error.h"
#include "stop.h"

struct importer {
    const char *program;            /* importer=PATH, or NULL: `megatron image` */
    const char *const *environment; /* what the program sees */
    const char *uri;
    /* The other options of `megatron image get`; NULL or 0: not given. */
    const char *shared_cache; /* the administrator's */
    uid_t publisher;
    const char *stage; /* node-local directory for a copy of the image */
    int64_t stage_max, min_free;
    const char *job, *step;     /* unique among all jobs and steps */
    int nodes;                  /* of the step */
    int processors;             /* available to an import */
    bool imports;               /* this node imports, the others wait for it */
    const char *container;      /* name of a container to create, unless it exists, and keep */
    int64_t timeout;            /* seconds */
    const char *timeout_remedy; /* if that is too short: "raise --option"; may be NULL */
    void (*say)(void *argument, const char *line); /* progress; may be NULL */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Run `get` and copy the path that it prints to 'path'; with 'container' it prints Enroot's name of
 * the container instead, and 'path' is not changed. Returns 0 or -1. */
int importer_get(const struct importer *importer, char *path, size_t size, struct error *err);

#endif

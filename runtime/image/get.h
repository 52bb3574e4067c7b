/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron image get`: everything from an image's name to something that Enroot can start on this
 * node. One process per node runs it; the nodes of a step coordinate through their shared cache. */
#ifndef MEGATRON_GET_H
#define MEGATRON_GET_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "import.h"

/* An importer beats once a second; one that is merely slow must not be considered dead. */
enum { LEASE_SECONDS = 20 };

struct image_get {
    struct image_request request; /* with 'job' set in a job */
    const char *step;             /* a name unique to this step; NULL: not in a step */
    int nodes;                    /* of the step */
    int waits;                    /* another node imports; wait for it */
    const char *stage;            /* node-local directory for a copy, or NULL */
    int64_t stage_max;            /* total bytes of this user's copies; 0: no limit */
    const char *container;        /* create this container instead, or NULL */
    const char *importer;         /* third-party program that provides the image, or NULL */
};

/* Get the image, or create the container unless it exists. 'answer' gets the path of the squashfs
 * file, or Enroot's name of the container. Returns 0 or -1. */
int image_get(struct image_get *get, char *answer, size_t size, struct error *err);

#endif

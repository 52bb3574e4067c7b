/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron image get`: everything between an image's name and what Enroot can start on this node.
 * One process per node runs it; the nodes of a step agree through the cache that they share. */
#ifndef MEGATRON_GET_H
#define MEGATRON_GET_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "import.h"

/* An importer beats once a second; one that is only slow must not be taken for dead. */
enum { LEASE_SECONDS = 20 };

struct image_get {
    struct image_request request; /* with 'job' set in a job */
    const char *step;             /* a name that no other step has; NULL: not in a step */
    int nodes;                    /* of the step */
    int waits;                    /* another node imports; wait for it */
    const char *stage;            /* node-local directory for a copy, or NULL */
    int64_t stage_max;            /* bytes of all copies of this user; 0: no limit */
    const char *container;        /* create this container instead, or NULL */
    const char *importer;         /* program that gets the image instead of the cache, or NULL */
};

/* Get the image, or create the container unless it exists. 'answer' gets the path of the squashfs
 * file, or Enroot's name of the container. Returns 0 or -1. */
int image_get(struct image_get *get, char *answer, size_t size, struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* `megatron image get`: everything from an image's name to something that Enroot can start on this
 * node. One process per node runs it; the nodes of a step coordinate through their shared cache.
 * In this order, it fails if
 *
 *     reference.h   the name is not that of an image (container/; the plugin checks it, too)
 *     cache.h       the cache cannot be written, or other users could write to it
 *     importer.h    with --importer: that program fails. The plugin passes the option only if a
 *                   container is kept; otherwise it runs the program directly, and none of this.
 *                   The program replaces all steps up to stage.h.
 *     announce.h    on the importing node: its lease cannot be created, or another node of the step
 *                   is already importing. On the nodes that wait: no heartbeat of the importing
 *                   node, no image in time, or one that this node cannot read.
 *     resolve.c     the registry or daemon does not answer or refuses, and no earlier answer helps;
 *                   in a job, an image of a daemon (dockerd://, podman://) was never imported
 *     records.c     that answer cannot be recorded in the cache, in names/ or jobs/
 *     import.h      the lease cannot be created; Enroot is missing or too old; too little space; the
 *                   import fails or takes too long; the image cannot be checksummed, synced and
 *                   renamed. If another process takes over the lease, there is a warning, and this
 *                   one waits for that one.
 *     stage.h       never: if it cannot be copied to the local disk, there is a warning, and the
 *                   image is started from the cache
 *     named.h       the container that is to be kept cannot be extracted
 *
 * All steps check the stop flag. All have a deadline if there is a timeout, except for the checksum
 * and fsync of an imported image, which take as long as the file system needs. What killed
 * processes leave behind is removed by the next one (sweep.h). The plugin's side is spank/image.c:
 * start of the importer, relay of its messages, start of the container. */
/* clang-format on */
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

/* The timeout of the next phase (copy, extraction), 'elapsed' seconds after the start: what is left
 * of 'timeout', but at least half a minute. 0: none. */
double image_time_left(double timeout, double elapsed);

#endif

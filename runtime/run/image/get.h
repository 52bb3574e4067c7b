/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* `megatron image get`: everything from an image's name to something that Enroot can start on this
 * node. One process per node runs it; the nodes of a step coordinate through their shared cache.
 * It fails if, in this order,
 *
 *     cache.h       none of MEGATRON_IMAGE_CACHE, XDG_CACHE_HOME and HOME is an absolute path; the
 *                   cache cannot be created or written, is a symbolic link, belongs to another
 *                   user, or other users could write to it
 *     reference.h   the name is not that of an image (container/; the plugin checks it, too)
 *     named.h       with --container: `enroot info` fails. A container that exists is used, with a
 *                   warning if it was created from another image, and nothing below happens.
 *     squashfs.h    with --container, for a file of the user's: it cannot be read, or is not a
 *                   squashfs file. It replaces all steps up to stage.h. (Without --container the
 *                   plugin does not run this program for a file.)
 *     importer.h    with --importer: that program fails. The plugin passes the option only if a
 *                   container is kept; otherwise it runs the program directly, and none of this.
 *                   The program replaces all steps up to stage.h.
 *     announce.h    the name of the step cannot be used as a file name.
 *                   On the importing node: its lease cannot be created, or another node of the step
 *                   is already importing. On the nodes that wait: no heartbeat of the importing
 *                   node, no image in time, or one that this node cannot read.
 *     resolve.c     in a job: the lease of the query cannot be created. The registry or daemon does
 *                   not answer or refuses, its answer is not a digest, or docker or podman is not
 *                   in PATH, and no earlier answer helps. In a job, an image of a daemon
 *                   (dockerd://, podman://) was never imported.
 *     records.c     that answer cannot be recorded in the cache, in names/ or jobs/
 *     import.h      the lease cannot be created, or another process that has it does not import the
 *                   image in time; Enroot is missing or too old; the temporary directory cannot be
 *                   created; too little space; the import fails or takes too long, or leaves no
 *                   squashfs file; the image cannot be checksummed, synced and renamed, its .info
 *                   file cannot be written, or the process that does so is killed; the image is
 *                   removed right after the import. If another process takes over the
 *                   lease, there is a warning, and this one waits for that one.
 *     stage.h       never: if it cannot be copied to the local disk, there is a warning, and the
 *                   image is started from the cache
 *     named.h       with --container: the lease cannot be created, or the container cannot be
 *                   extracted and renamed in time, by this process or by another one that has the
 *                   lease
 *
 * An administrator's cache (--shared-cache) that cannot be trusted is skipped with a warning. Any
 * step can run out of memory, find that a path is too long, or fail to start a process. Options
 * that contradict each other are rejected before all this (command/image_get.c).
 * All steps check the stop flag. All have a deadline if there is a timeout, except for the checksum
 * and fsync of an imported image, which take as long as the file system needs. What killed
 * processes leave behind is removed by the next one (sweep.h). A damaged or untrusted image in the
 * user's own cache is imported again, with a warning. spank/image.h lists the plugin's steps before
 * and after this program. `megatron image import` takes the same steps from resolve.c on; what can
 * fail before and after them (its options, the file of --output) is in command/image.c. */
/* clang-format on */
#ifndef MEGATRON_GET_H
#define MEGATRON_GET_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
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

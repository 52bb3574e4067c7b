/* SPDX-License-Identifier: Apache-2.0 */
/* Kept containers, which outlive a step: extracted once, writable, found again by name. */
#ifndef MEGATRON_NAMED_H
#define MEGATRON_NAMED_H

#include <stddef.h>
#include "lib/error.h"
#include "container/stop.h"

struct named_request {
    const char *name;
    const char *image;              /* a squashfs file */
    const char *origin;             /* recorded in the container, one line */
    const char *path;               /* directories to search for enroot */
    const char *const *environment; /* Enroot's environment */
    double timeout;                 /* timeout for creating it, in seconds; 0: none */
    const char *timeout_remedy;     /* if that is too short: "raise --option" */
    double patience;       /* seconds without a heartbeat of another process that creates it */
    const stop_flag *stop; /* may be NULL */
};

/* The image that a container was created from; "" if unknown. */
enum { NAMED_ORIGIN_SIZE = 1200 };

/* Does a container of this name exist? Returns 1 with its origin and its name in Enroot, 0 or -1.
 */
int container_kept(const struct named_request *request, char *full, size_t size,
                   char origin[NAMED_ORIGIN_SIZE], struct error *err);

/* Create this user's container unless it exists. Nodes that share Enroot's directory create it
 * once. It gets its name when it is complete; the next process removes what an interrupted one left
 * behind. 'full' gets its name in Enroot. Returns 0 or -1. */
int container_keep(const struct named_request *request, char *full, size_t size, struct error *err);

#endif

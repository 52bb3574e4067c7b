/* Containers that outlive a step: extracted once, writable, found again by name. */
#ifndef MEGATRON_NAMED_H
#define MEGATRON_NAMED_H

#include <stddef.h>
#include "error.h"
#include "stop.h"

struct named_request {
    const char *name;
    const char *image;              /* a squashfs file */
    const char *origin;             /* what it is to be remembered by, one line */
    const char *path;               /* where enroot is looked for */
    const char *const *environment; /* what Enroot sees */
    double timeout;                 /* seconds to make it */
    double patience;       /* seconds without a sign of life of another process that makes it */
    const stop_flag *stop; /* may be NULL */
};

/* What a container was made from, as it was remembered; "" where that is not known. */
enum { NAMED_ORIGIN_SIZE = 1200 };

/* Is there a container of this name already? Returns 1 with its origin and the name it has for
 * Enroot, 0 or -1. */
int container_kept(const struct named_request *request, char *full, size_t size,
                   char origin[NAMED_ORIGIN_SIZE], struct error *err);

/* Make the container of this user unless there is one. Nodes that share Enroot's directory make it
 * once. It gets its name when it is whole; what an interrupted making left is removed by the next.
 * 'full' gets the name it has for Enroot. Returns 0 or -1. */
int container_keep(const struct named_request *request, char *full, size_t size, struct error *err);

#endif

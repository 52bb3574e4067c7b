/* A directory of one's own on this node for unfinished work; what a killed process left is swept.
 */
#ifndef MEGATRON_SCRATCH_H
#define MEGATRON_SCRATCH_H

#include "error.h"

struct scratch {
    char path[2048];
    int alive; /* holds a lock for as long as this process lives */
};

/* Make a directory for this user alone in 'parent'. Returns 0 or -1. */
int scratch_create(struct scratch *scratch, const char *parent, struct error *err);

/* Remove it with everything in it. */
void scratch_destroy(struct scratch *scratch);

/* Remove this user's scratch directories in 'parent' whose processes are gone. */
void scratch_sweep(const char *parent);

/* Bytes of all files below the scratch directory. */
long long scratch_size(const struct scratch *scratch);

#endif

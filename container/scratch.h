/* SPDX-License-Identifier: Apache-2.0 */
/* A private node-local directory for temporary files. Directories left by killed processes are
 * cleaned up. */
#ifndef MEGATRON_SCRATCH_H
#define MEGATRON_SCRATCH_H

#include "lib/error.h"

struct scratch {
    char path[2048];
    int alive; /* descriptor of a file that is locked for as long as this process lives */
};

/* Create a directory in 'parent' that only this user can access. Returns 0 or -1. */
int scratch_create(struct scratch *scratch, const char *parent, struct error *err);

/* Remove the directory and everything in it. */
void scratch_destroy(struct scratch *scratch);

/* Remove this user's scratch directories in 'parent' whose owners have exited. */
void scratch_sweep(const char *parent);

/* Return the total size in bytes of all files in the scratch directory. */
long long scratch_size(const struct scratch *scratch);

#endif

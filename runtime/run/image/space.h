/* SPDX-License-Identifier: Apache-2.0 */
/* The space that an import needs, in each directory that it writes to. */
#ifndef MEGATRON_SPACE_H
#define MEGATRON_SPACE_H

#include "lib/error.h"
#include "import.h"

/* Where an import writes, besides the user's image cache. */
struct import_places {
    const char *temporary; /* where layers are unpacked */
    const char *layers;    /* Enroot's cache of downloaded layers; NULL: unknown or unused */
};

/* Check the free space before an import. The size of the image is not known yet: each directory
 * needs the configured minimum, and the cache at least the size of the last image of this name.
 * Returns 0 or -1. */
int import_check_space(const struct image_request *request, const struct import_places *places,
                       struct error *err);

/* If 'errors', the output of Enroot, shows that a disk is full or a quota is used up, add the free
 * space of each directory to 'err', and the size of the unpacked image unless 'unpacked' is 0. */
void import_explain_space(const struct image_request *request, const struct import_places *places,
                          const char *errors, double unpacked, struct error *err);

#endif

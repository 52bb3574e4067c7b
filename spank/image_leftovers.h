/* SPDX-License-Identifier: Apache-2.0 */
/* What is needed after a step to clean up after the process that fetched its image. */
#ifndef MEGATRON_IMAGE_LEFTOVERS_H
#define MEGATRON_IMAGE_LEFTOVERS_H

struct image_leftovers {
    char temporary[1024];    /* its node-local directory; "" if it never started */
    char environment[16384]; /* for the importer's `release`: "NAME=value" strings,
                                NUL-terminated; "" if it need not run on this node */
};

#endif

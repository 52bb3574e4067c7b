/* SPDX-License-Identifier: Apache-2.0 */
/* Can containers be started on this host? */
#ifndef MEGATRON_HOST_H
#define MEGATRON_HOST_H

#include "lib/error.h"

/* Check the prerequisites before anything is imported: enroot in the directories of 'path', user
 * namespaces and, unless 'fuse' is NULL, squashfuse and the device 'fuse'. Returns 0, or -1 with
 * what is missing and the remedy. */
int host_check(const char *path, const char *fuse, struct error *err);

#endif

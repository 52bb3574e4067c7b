/* SPDX-License-Identifier: Apache-2.0 */
/* --megatron-mounts: host paths to mount into a container. */
#ifndef MEGATRON_MOUNTS_H
#define MEGATRON_MOUNTS_H

#include <stddef.h>
#include "lib/error.h"

struct container_mount {
    char *source; /* on the host, absolute */
    char *target; /* in the container, absolute, without a trailing slash */
    char *flags;  /* for mount(8), separated by commas */
};

struct container_mounts {
    struct container_mount *items;
    size_t count;
};

/* Parse "SRC:DST[:FLAG[+FLAG...]],..." into 'mounts'. `\,`, `\:` and `\\` are escapes; SRC alone is
 * mounted at the same path. Relative paths, duplicate targets and unknown flags are errors. Returns
 * 0 or -1; the caller clears 'mounts' in both cases. */
int mounts_parse(const char *what, const char *text, struct container_mounts *mounts,
                 struct error *err);

/* Check that this process can see every source. The error names the first one that it cannot see.
 * Returns 0 or -1. */
int mounts_check_sources(const char *what, const struct container_mounts *mounts,
                         struct error *err);

/* Format one mount as an fstab(5) line, with spaces and backslashes escaped. Returns 0, or -1 if it
 * does not fit into 'size' bytes. */
int mount_format(const struct container_mount *mount, char *buffer, size_t size);

/* Add one mount with mount(8) flags; append all mounts of 'from' to 'mounts'. Both return 0, or -1
 * if out of memory or if there are too many mounts. */
int mounts_add(struct container_mounts *mounts, const char *source, const char *target,
               const char *flags);
int mounts_copy(struct container_mounts *mounts, const struct container_mounts *from);

void mounts_clear(struct container_mounts *mounts);

#endif

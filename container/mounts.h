/* --megatron-mounts: what of the host is seen in a container. */
#ifndef MEGATRON_MOUNTS_H
#define MEGATRON_MOUNTS_H

#include <stddef.h>
#include "error.h"

struct container_mount {
    char *source; /* on the host, absolute */
    char *target; /* in the container, absolute, without a trailing slash */
    char *flags;  /* for mount(8), separated by commas */
};

struct container_mounts {
    struct container_mount *items;
    size_t count;
};

/* Read "SRC:DST[:FLAG[+FLAG...]],..." into 'mounts'. `\,`, `\:` and `\\` stand for the character
 * itself; SRC alone is mounted at the same place. Refused are relative paths, a target given twice,
 * flags that are unknown. Returns 0 or -1; the caller clears 'mounts' in both cases. */
int mounts_parse(const char *what, const char *text, struct container_mounts *mounts,
                 struct error *err);

/* Can this process see every source? Names the first that it cannot. Returns 0 or -1. */
int mounts_check_sources(const char *what, const struct container_mounts *mounts,
                         struct error *err);

/* One mount as a line of fstab(5), spaces and backslashes escaped. Returns 0, or -1 if it does
 * not fit into 'size' bytes. */
int mount_format(const struct container_mount *mount, char *buffer, size_t size);

/* Add one mount, with flags of mount(8); append all mounts of 'from' to 'mounts'.
 * Returns 0, or -1 if out of memory or room. */
int mounts_add(struct container_mounts *mounts, const char *source, const char *target,
               const char *flags);
int mounts_copy(struct container_mounts *mounts, const struct container_mounts *from);

void mounts_clear(struct container_mounts *mounts);

#endif

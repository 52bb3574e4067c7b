/* SPDX-License-Identifier: Apache-2.0 */
/* Where a user's image cache is (runtime/run/image/cache.h), how it is recognized, and how
 * unfinished work in it is removed. Slurm's processes do only the last. */
#ifndef MEGATRON_CACHE_ROOT_H
#define MEGATRON_CACHE_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "lib/error.h"

/* In the root of a cache: this program created it, and may clean up in it. */
#define CACHE_MARKER      ".megatron-images"
#define CACHE_MARKER_TEXT "cache of container images, created by megatron\n"

/* The default cache of a user: $MEGATRON_IMAGE_CACHE, else
 * $XDG_CACHE_HOME/megatron/images, else HOME/.cache/megatron/images. Returns 0 or -1. */
int image_cache_default(const char *named, const char *cache_home, const char *home,
                        char *directory, size_t size, struct error *err);

/* Is the open directory marked as a cache of 'owner' or root? */
bool cache_is_marked(int at, uid_t owner);

/* Remove unfinished files of killed processes from the cache that is opened as 'at'. */
void cache_sweep_unfinished(int at);

/* The same for the cache at 'directory' if it is this user's, as `megatron image release` does.
 * Nothing is created, no program is run, and there is no message. */
void cache_release(const char *directory);

#endif

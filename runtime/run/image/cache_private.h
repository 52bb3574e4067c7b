/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the cache. */
#ifndef MEGATRON_CACHE_PRIVATE_H
#define MEGATRON_CACHE_PRIVATE_H

#include "cache.h"

enum { INFO_SIZE = IMAGE_TEXT_SIZE + 1024 };

/* Write a small file of the cache; 'path' is relative to the cache. A draft left by a killed
 * process is swept later. */
int image_cache_write(const struct image_cache *cache, const char *path, const char *text,
                      struct error *err);

/* Check that everything in the opened cache is this program's, and mark it as a cache, or find the
 * mark. Creates the directories. Returns 0 or -1. */
int image_cache_adopt(const struct image_cache *cache, struct error *err);

/* Set the error of a cache that cannot be written, from errno. Returns -1. */
int image_cache_reject(const struct image_cache *cache, struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the cache. */
#ifndef MEGATRON_CACHE_PRIVATE_H
#define MEGATRON_CACHE_PRIVATE_H

#include "cache.h"

enum { INFO_SIZE = IMAGE_TEXT_SIZE + 1024 };

/* Write a small file of the cache. A draft left by a killed process is swept later. */
int image_cache_write(const struct image_cache *cache, const char *path, const char *text,
                      struct error *err);

#endif

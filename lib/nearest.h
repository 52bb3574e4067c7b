/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the known names closest to an unknown one. */
#ifndef MEGATRON_NEAREST_H
#define MEGATRON_NEAREST_H

#include <stddef.h>

/* Edit distance (insert, delete, replace, swap of neighbors) of two names, ignoring letter case.
 * Names longer than 63 bytes are compared by their first 63. */
size_t nearest_distance(const char *a, const char *b);

/* Write up to three of 'count' 'names' that are close to 'name' into 'buffer' as "a, b or c",
 * closest first. Returns the number written; 0 (and an empty buffer) if none is close. */
size_t nearest_names(const char *name, const char *const *names, size_t count, char *buffer,
                     size_t size);

#endif

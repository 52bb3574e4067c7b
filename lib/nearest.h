/* "Did you mean": the known names nearest to a name that is not known. */
#ifndef MEGATRON_NEAREST_H
#define MEGATRON_NEAREST_H

#include <stddef.h>

/* Edit distance (insert, delete, replace, swap of neighbours) of two names, letter case ignored.
 * Names longer than 63 bytes compare by their first 63. */
size_t nearest_distance(const char *a, const char *b);

/* Write up to three of 'count' 'names' that are near to 'name' into 'buffer' as "a, b or c",
 * nearest first. Returns how many were written; 0 (and an empty buffer) where nothing is near. */
size_t nearest_names(const char *name, const char *const *names, size_t count, char *buffer,
                     size_t size);

#endif

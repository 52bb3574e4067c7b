/* A copy of an image on the node's own disk, where a shared file system is slow. */
#ifndef MEGATRON_STAGE_H
#define MEGATRON_STAGE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

/* Make the copy of 'image' (called 'key') in this user's part of 'directory', or find it there;
 * the longest unused copies of this user's go until all of them fit into 'limit' bytes (0: no
 * limit). 'path' gets its name. Returns 0, or -1 where there is no room: then start the original.
 */
int image_stage(const char *directory, int64_t limit, const char *key, const char *image,
                char *path, size_t size, struct error *err);

#endif

/* Where the image of a step is: in a file, in a cache, or in a registry from which it is imported.
 * Of the parts of image.h. */
#ifndef MEGATRON_IMAGE_FIND_H
#define MEGATRON_IMAGE_FIND_H

#include <stddef.h>

#include "announce.h"
#include "cache.h"
#include "enroot.h"
#include "image.h"
#include "import.h"

/* An importer shows every second that it lives; one that is only slow is not to be taken for dead.
 */
enum { LEASE_SECONDS = 20 };

/* Everything needed to ask for and import an image, in one place. */
struct image_work {
    struct image_cache own, shared;
    struct announcement announcement;
    struct image_request request;
    const struct image_node *node;
};

/* Where programs are looked for. */
const char *image_enroot_path(const struct config *config);

/* The user's cache, by his environment. Returns 0 or -1. */
int image_cache_place(const char *const *environment, char *directory, size_t size,
                      struct error *err);

/* Say in 'work' what is asked for, with which programs, where and for how long. */
void image_work_fill(struct image_work *work, const struct image_settings *settings,
                     const struct config *config, const char *const *environment);

/* Open the user's cache and, where it can be trusted, the administrator's. Returns 0 or -1. */
int image_work_open(struct image_work *work, const struct config *config,
                    const char *const *environment, struct error *err);

/* The squashfs file of the image, imported where need be, and its key ("" for the user's own file).
 * Returns 0 or -1. */
int image_find(const struct image_node *node, char key[IMAGE_KEY_SIZE], char *path, size_t size,
               struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The options about images, parsed into values. Does not depend on Slurm. */
#ifndef MEGATRON_IMAGE_SETTINGS_H
#define MEGATRON_IMAGE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/error.h"
#include "container/mounts.h"
#include "container/reference.h"

struct config;
struct settings;

struct image_settings {
    bool used; /* an image was requested */
    struct image_reference reference;
    struct container_mounts mounts;
    const char *workdir;   /* NULL: the image's own */
    const char *keep;      /* names of variables that keep the job's value, separated by commas */
    const char *container; /* name of a container that outlives the step, or NULL */
    bool mount_home, entrypoint, readonly, remap_root;
    int64_t timeout; /* of an import, in seconds */
};

/* Parse the user's and the administrator's values into 'image'. Returns 0 or -1. */
int image_settings_resolve(struct image_settings *image, const struct settings *settings,
                           const struct config *config, struct error *err);

/* Check the administrator's defaults, even if no image is requested. Returns 0 or -1. */
int image_settings_check_defaults(const struct config *config, struct error *err);

/* Is 'name' among the variables that keep the job's value? */
bool image_settings_keeps(const struct image_settings *image, const char *name);

void image_settings_clear(struct image_settings *image);

#endif

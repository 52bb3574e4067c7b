/* Containers that outlive a step: extracted once, writable, found again by name. */
#ifndef MEGATRON_NAMED_H
#define MEGATRON_NAMED_H

#include <stddef.h>
#include "error.h"

/* Make the container 'name' of this user from 'image' unless there is one. 'full' gets the name it
 * has for Enroot. Returns 0 or -1. */
int container_keep(const char *name, const char *image, const char *path,
                   const char *const *environment, double timeout, char *full, size_t size,
                   struct error *err);

#endif

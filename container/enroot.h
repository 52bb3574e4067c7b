/* Enroot as a program that is called: its environment and its answers. */
#ifndef MEGATRON_ENROOT_H
#define MEGATRON_ENROOT_H

#include <stddef.h>
#include "error.h"

/* An environment for Enroot: 'base' with the names in 'settings' ("NAME=value", NULL at the end)
 * replaced or added. The strings stay where they are; free the array. NULL if out of memory. */
const char **enroot_environment(const char *const *base, const char *const *settings);

/* The value of 'name' in 'environment', or NULL. */
const char *environment_value(const char *const *environment, const char *name);

/* Is there an Enroot in 'path' that is new enough? Returns 0, or -1 with the remedy. */
int enroot_check(const char *path, const char *const *environment, struct error *err);

/* Turn the way Enroot ended into a sentence about 'what' ("import of docker://..."): its exit code,
 * its own complaint, and what to do. Returns -1. */
int enroot_explain(const char *what, int status, const char *errors, struct error *err);

#endif

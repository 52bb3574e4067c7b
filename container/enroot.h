/* SPDX-License-Identifier: Apache-2.0 */
/* Run Enroot: its environment, its settings and its errors. */
#ifndef MEGATRON_ENROOT_H
#define MEGATRON_ENROOT_H

#include <stddef.h>
#include "lib/error.h"
#include "stop.h"

enum { ENROOT_INFO_SIZE = 4096 };

/* Enroot creates ENROOT_RUNTIME_PATH before anything else. A job inherits the login node's value
 * (/run/user/1000), which does not exist on compute nodes. Only `start` uses the directory and gets
 * one of its own; every other command accepts any existing directory. */
#define ENROOT_ANY_RUNTIME "ENROOT_RUNTIME_PATH=/tmp"

/* The node-local directory for temporary files, as configured in the environment. */
const char *enroot_temporary(const char *const *environment);

/* Build an environment for Enroot: 'base' with the variables in the NULL-terminated 'settings'
 * ("NAME=value") replaced or added. The strings are not copied; the caller frees the array. Returns
 * NULL if out of memory. */
const char **enroot_environment(const char *const *base, const char *const *settings);

/* Return the value of 'name' in 'environment', or NULL. */
const char *environment_value(const char *const *environment, const char *name);

/* How to run it, as in process.h. */
struct enroot_call {
    const char *path;
    const char *const *environment;
    int (*tick)(void *argument, double elapsed);
    void *argument;
    const stop_flag *stop;
};

/* Check that Enroot is installed and recent enough. Returns 0, or -1 with the remedy. */
int enroot_check(const struct enroot_call *call, struct error *err);

/* Store the output of `enroot info`, which includes settings from Enroot's configuration files;
 * read it with enroot_setting. Returns 0 or -1. */
int enroot_info(const struct enroot_call *call, char *info, size_t size, struct error *err);

/* Look up setting 'name'. Returns 0, or -1 if it is not set. */
int enroot_setting(const char *info, const char *name, char *value, size_t size);

/* Turn Enroot's exit into an error about 'what' ("import of docker://..."): its exit code (-1 if it
 * is unknown), its own message, and what to do. The code is ERROR_BUSY if other nodes hold the lock
 * of a shared container. Returns -1. */
int enroot_explain(const char *what, int status, const char *errors, struct error *err);

#endif

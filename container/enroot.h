/* Running Enroot: its environment and its answers. */
#ifndef MEGATRON_ENROOT_H
#define MEGATRON_ENROOT_H

#include <stddef.h>
#include "error.h"
#include "stop.h"

enum { ENROOT_INFO_SIZE = 4096 };

/* Enroot creates ENROOT_RUNTIME_PATH before anything else, and a job inherits that of the login
 * node
 * (/run/user/1000), which compute nodes do not have. Only `start` uses it, and gets its own; for
 * all other commands any directory that exists is good enough. */
#define ENROOT_ANY_RUNTIME "ENROOT_RUNTIME_PATH=/tmp"

/* The node-local directory for unfinished work that the environment chooses. */
const char *enroot_temporary(const char *const *environment);

/* An environment for Enroot: 'base' with the variables in 'settings' ("NAME=value", NULL at the
 * end) replaced or added. The strings are not copied; free the array. NULL if out of memory. */
const char **enroot_environment(const char *const *base, const char *const *settings);

/* The value of 'name' in 'environment', or NULL. */
const char *environment_value(const char *const *environment, const char *name);

/* How to run it, as in process.h. */
struct enroot_call {
    const char *path;
    const char *const *environment;
    int (*tick)(void *argument, double elapsed);
    void *argument;
    const stop_flag *stop;
};

/* Is Enroot installed, and new enough? Returns 0, or -1 with the remedy. */
int enroot_check(const struct enroot_call *call, struct error *err);

/* The output of `enroot info`, which includes settings from Enroot's configuration files; read it
 * with enroot_setting. Returns 0 or -1. */
int enroot_info(const struct enroot_call *call, char *info, size_t size, struct error *err);

/* The value of setting 'name'. Returns 0, or -1 if there is none. */
int enroot_setting(const char *info, const char *name, char *value, size_t size);

/* Turn the way Enroot ended into an error about 'what' ("import of docker://..."): its exit code,
 * its own message, and what to do. The code is ERROR_BUSY if other nodes hold the lock of a
 * container that they share. Returns -1. */
int enroot_explain(const char *what, int status, const char *errors, struct error *err);

#endif

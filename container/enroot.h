/* Enroot as a program that is called: its environment and its answers. */
#ifndef MEGATRON_ENROOT_H
#define MEGATRON_ENROOT_H

#include <stddef.h>
#include "error.h"
#include "stop.h"

enum { ENROOT_INFO_SIZE = 4096 };

/* Whatever it is asked, Enroot makes its ENROOT_RUNTIME_PATH first, and what a job has of that is
 * the login node's: /run/user/1000. Only a start uses it, and has one of its own; for anything else
 * this is one that is there. */
#define ENROOT_ANY_RUNTIME "ENROOT_RUNTIME_PATH=/tmp"

/* The node's own directory for unfinished work, by the environment. */
const char *enroot_temporary(const char *const *environment);

/* An environment for Enroot: 'base' with the names in 'settings' ("NAME=value", NULL at the end)
 * replaced or added. The strings stay where they are; free the array. NULL if out of memory. */
const char **enroot_environment(const char *const *base, const char *const *settings);

/* The value of 'name' in 'environment', or NULL. */
const char *environment_value(const char *const *environment, const char *name);

/* How it is asked; as in process.h. */
struct enroot_call {
    const char *path;
    const char *const *environment;
    int (*tick)(void *argument, double elapsed);
    void *argument;
    const stop_flag *stop;
};

/* Is there an Enroot that is new enough? Returns 0, or -1 with the remedy. */
int enroot_check(const struct enroot_call *call, struct error *err);

/* What Enroot says of its settings, which files of its own may have: 'info' is for enroot_setting.
 * Returns 0 or -1. */
int enroot_info(const struct enroot_call *call, char *info, size_t size, struct error *err);

/* The value of setting 'name'. Returns 0, or -1 where there is none. */
int enroot_setting(const char *info, const char *name, char *value, size_t size);

/* What Enroot complains of where it waited for too long until it may change a container: nodes that
 * share one do that one after another. */
#define ENROOT_LOCKED "Could not acquire rootfs lock"

/* Turn the way Enroot ended into a sentence about 'what' ("import of docker://..."): its exit code,
 * its own complaint, and what to do. Returns -1. */
int enroot_explain(const char *what, int status, const char *errors, struct error *err);

#endif

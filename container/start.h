/* SPDX-License-Identifier: Apache-2.0 */
/* Start a container from an image, and move a process into a running container:
 *
 *     pipe2(lifetime, O_CLOEXEC);
 *     container_start(&request, lifetime[0], &holder, &err);         one task of the node
 *     container_environment(holder, set_variable, task, &err);       every task,
 *     container_join(holder, entrypoint, workdir, &entered, &err);   just before its exec
 *
 * The container ends when the last write end of 'lifetime' is closed, however that happens. */
#ifndef MEGATRON_START_H
#define MEGATRON_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "lib/error.h"
#include "mounts.h"
#include "stop.h"

struct container_request {
    const char *image;                     /* a squashfs file, or the name of an Enroot container */
    const struct container_mounts *mounts; /* may be NULL */
    const char *const *settings; /* "NAME=value" for hooks and the entry point; NULL-terminated */
    const char *const *environment; /* Enroot's own environment */
    const char *path;               /* directories to search for enroot */
    const char *temporary;          /* node-local directory for files needed while the container
                                       starts */
    bool writable, remap_root, mount_home;
    bool entrypoint;               /* run the image's entry point (needs a shell in the image) */
    const char *entrypoint_remedy; /* if it fails: "omit --option"; may be NULL */
    double timeout;                /* seconds */
    const stop_flag *stop;         /* may be NULL */
};

/* Start the container. It lives until every process has closed the write end of the pipe whose read
 * end is 'lifetime', and is not a child of the caller. '*holder' gets the PID of the process whose
 * namespaces, environment and working directory are the container's. Returns 0 or -1. */
int container_start(const struct container_request *request, int lifetime, pid_t *holder,
                    struct error *err);

/* Read the container's environment from its holder and pass each variable to 'set', in order; a
 * nonzero return value of 'set' stops the loop. Returns 0 or -1. Call before container_join. */
int container_environment(pid_t holder,
                          int (*set)(void *argument, const char *name, const char *value),
                          void *argument, struct error *err);

/* Move this (single-threaded) process into the container: its namespaces, and the working directory
 * 'workdir' or, if that is NULL, the image's own. '*entered' is set, even on failure, to whether
 * this process already sees the container's files. Returns 0 or -1. */
int container_join(pid_t holder, bool entrypoint, const char *workdir, bool *entered,
                   struct error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* Turn the image that a step requests into a container on this node that its tasks can join. Does
 * not depend on Slurm; runs as the user. One task per node, the leader, does it; the other tasks of
 * the node wait for it. The leader fails if, in this order,
 *
 *     mounts.h      a source of --megatron-mounts does not exist
 *     host.h        Enroot is not in enroot_path=; user namespaces are not allowed; unless a
 *                   container is kept or image_fuse=none, squashfuse is missing or /dev/fuse cannot
 *                   be opened
 *     squashfs.h    for a file of the user's, unless a container is kept: it cannot be read, or is
 *                   not a squashfs file. It replaces the next step.
 *     importer.h    the importer cannot be run, fails (runtime/run/image/get.h lists why), is killed,
 *                   prints something other than the path of a squashfs file, or takes longer than
 *                   --megatron-import-timeout. `megatron image get` has this timeout itself and
 *                   reports what it was doing, so the plugin waits 240 s longer for it
 *                   (MARGIN_SECONDS in importer.c).
 *     start.h       the temporary directory or Enroot's configuration cannot be written; Enroot or
 *                   the image's entry point fails; the container does not start within 120 s. A
 *                   kept container that other nodes have locked is tried again (start_kept).
 *
 * The other tasks report the leader's error. They fail on their own if the leader has died, or has
 * not finished 600 s after --megatron-import-timeout (IMAGE_MARGIN_SECONDS in task_container.c,
 * share.h): import and start together end before, so that the leader reports first. Only a kept
 * container that stays locked can take longer. */
/* clang-format on */
#ifndef MEGATRON_IMAGE_H
#define MEGATRON_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/cpuset.h"
#include "lib/error.h"
#include "share.h"
#include "image_settings.h"
#include "container/stop.h"

struct config;

struct image_node {
    const struct image_settings *settings;
    const struct config *config;
    const char *const *environment; /* the task's environment */
    const char *home;               /* used if the environment has no HOME; or "" */
    const char *node;               /* the node's name */
    const char *job, *step;         /* unique names, the same on all nodes */
    const char *gpus;               /* GPUs that NVIDIA's hook exposes; "" for none */
    bool imports;                   /* this node imports; the step's other nodes wait */
    int nodes;
    int processors;
    int lifetime; /* read end of a pipe; slurmstepd holds the write end */
    void (*say)(void *argument, const char *line);
    void *argument;
    const stop_flag *stop;             /* set when the step is to end */
    struct image_leftovers *leftovers; /* filled before anything is written, for image_clean_up */
};

/* Get the image and start the container. '*holder' gets the process to join. Returns 0 or -1. */
int image_start(const struct image_node *node, pid_t *holder, struct error *err);

/* When the step is over, in a process of the user's: must the administrator's importer= be
 * told? image_release replaces the process by it, and returns only if that fails. */
bool image_needs_release(const struct image_leftovers *leftovers, const struct config *config);
void image_release(const struct image_leftovers *leftovers, const struct config *config);

/* Remove what image_start left, without running any program: needed if it was killed. May take
 * a minute. */
bool image_needs_clean_up(const struct image_leftovers *leftovers, bool killed);
void image_clean_up(const struct image_leftovers *leftovers, const struct config *config);

/* On the submit host: import an image from the local docker or podman into the cache. Returns 0 or
 * -1. */
int image_import_from_daemon(const struct image_settings *settings, const struct config *config,
                             const char *const *environment,
                             void (*say)(void *argument, const char *line), struct error *err);

/* Does the task keep its own value of variable 'name' instead of the image's? */
bool image_hides_variable(const struct image_settings *settings, const char *name);

#endif

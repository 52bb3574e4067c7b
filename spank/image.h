/* From the image a step asks for to a container on this node that its tasks can join. No Slurm in
 * here; runs as the user. */
#ifndef MEGATRON_IMAGE_H
#define MEGATRON_IMAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "cpuset.h"
#include "error.h"
#include "image_places.h"
#include "image_settings.h"
#include "stop.h"

struct config;

struct image_node {
    const struct image_settings *settings;
    const struct config *config;
    const char *const *environment; /* the task's */
    const char *home;               /* where that has no HOME; or "" */
    const char *node;               /* its name */
    const char *job, *step;         /* names that only this job, only this step has, on all nodes */
    const char *gpus;               /* what NVIDIA's hook is to make visible; "" for none */
    bool imports;                   /* this node asks the registry and imports */
    int nodes;
    int processors;
    int lifetime; /* the read end of the pipe whose other end slurmstepd holds */
    void (*say)(void *argument, const char *line);
    void *argument;
    const stop_flag *stop;       /* set when the step is to end */
    struct image_places *places; /* gets where it works, before it begins */
};

/* Get the image, start the container. '*holder' gets the process to join. Returns 0 or -1. */
int image_start(const struct image_node *node, pid_t *holder, struct error *err);

/* When the step is over and image_start was killed: remove what it left. As the user. */
void image_sweep(const struct image_places *places);

/* On the submit host: bring an image of its own docker or podman into the cache. Returns 0 or -1.
 */
int image_import_from_daemon(const struct image_settings *settings, const struct config *config,
                             const char *const *environment,
                             void (*say)(void *argument, const char *line), struct error *err);

/* Should the image's value of variable 'name' stay out of the task's environment? */
bool image_hides_variable(const struct image_settings *settings, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Decide what each task of a node gets of what Slurm allocated. Does not depend on Slurm. */
#ifndef MEGATRON_PLACE_H
#define MEGATRON_PLACE_H

#include "lib/error.h"
#include "settings.h"
#include "share.h"

struct place_input {
    const struct settings *settings; /* resolved */
    const struct config *config;
    const char *node;        /* its name */
    unsigned overrides;      /* enum override */
    int64_t gpus_on_node;    /* number of GPUs of the step here, from Slurm; 0 if unknown */
    const char *cgroup_root; /* "" except in tests */
};

enum { PLACE_NOTES = 2048 };

/* One sentence per line. */
struct place_notes {
    char text[PLACE_NOTES];     /* what was left alone, is shared or is far away */
    char warnings[PLACE_NOTES]; /* why the step's GPUs are not assigned to its tasks */
};

/* Add a line to one of the notes. */
void place_say(char notes[PLACE_NOTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fill in the results of all tasks in 'share'. Returns 0 or -1. */
int place_tasks(struct share *share, const struct place_input *input, struct place_notes *notes,
                struct error *err);

/* The file in which slurmd stores the topology of 'node' for the tasks. */
void place_topology_path(const struct config *config, const char *node, char *path, size_t size);

/* Discover the node as configured: from topology=FILE, or with hwloc. The caller destroys it. */
struct topology *place_discover(const struct config *config, struct error *err);

#endif

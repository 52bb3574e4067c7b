/* SPDX-License-Identifier: Apache-2.0 */
/* How the nodes of a step get one image: one of them asks the registry and imports, holding a
 * heartbeat lease in the user's cache; the others wait for the image. If the import fails, that
 * node reports why, and the step ends on all nodes. */
#ifndef MEGATRON_ANNOUNCE_H
#define MEGATRON_ANNOUNCE_H

#include "cache.h"
#include "lib/error.h"
#include "lib/lease.h"
#include "container/stop.h"

struct announcement {
    const struct image_cache *cache;
    char path[512];     /* in the cache */
    struct lease lease; /* the heartbeat of the importing node */
};

struct announcement_wait {
    int nodes;                                     /* of the step */
    double patience;                               /* seconds without a heartbeat */
    double timeout;                                /* seconds in all; 0: no limit */
    const char *timeout_remedy;                    /* if that is too short: "raise --option" */
    int (*look)(void *argument);                   /* is the image there? 1, or 0 */
    void (*say)(void *argument, const char *line); /* called if it takes long */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Name the announcement of one step: 'step' is the same on all its nodes and unique. Returns 0 or
 * -1.
 */
int announcement_open(struct announcement *announcement, const struct image_cache *cache,
                      const char *step, struct error *err);

/* On the importing node: begin, beat about once a second, end. Begin returns 1, 0 if another node
 * has begun, or -1; with 'alone' no other node tries. */
int announcement_begin(struct announcement *announcement, int alone, struct error *err);
void announcement_beat(struct announcement *announcement);
void announcement_end(struct announcement *announcement);

/* On the other nodes: wait for the image. Returns 0 or -1. */
int announcement_wait(const struct announcement *announcement, const struct announcement_wait *wait,
                      struct error *err);

#endif

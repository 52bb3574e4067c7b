/* How the nodes of a step get one image: one of them asks the registry and imports, and shows by a
 * lease in the user's cache that it lives; the others wait for the image. Where the import fails
 * that node says why, and the step ends on all of them. */
#ifndef MEGATRON_ANNOUNCE_H
#define MEGATRON_ANNOUNCE_H

#include "cache.h"
#include "error.h"
#include "lease.h"
#include "stop.h"

struct announcement {
    char path[4096];
    struct lease lease; /* shows that the importing node lives */
};

struct announcement_wait {
    int nodes;                   /* how many there are, all in all */
    double patience;             /* seconds without a sign of life that are an error */
    double timeout;              /* seconds in all that are; 0: any time */
    int (*look)(void *argument); /* is the image there? 1, or 0 */
    void (*say)(void *argument, const char *line); /* called when it takes long */
    void *argument;
    const stop_flag *stop; /* may be NULL */
};

/* Name the announcement of one step, by a text that all its nodes can make and no other step has.
 * Returns 0 or -1. */
int announcement_open(struct announcement *announcement, const struct image_cache *cache,
                      const char *step, struct error *err);

/* On the node that imports: show that work has begun, that it goes on (about every second), and
 * that it is over. To begin returns 1, 0 where another node has begun, or -1; with 'alone' no other
 * node tries. */
int announcement_begin(struct announcement *announcement, int alone, struct error *err);
void announcement_beat(struct announcement *announcement);
void announcement_end(struct announcement *announcement);

/* On the others: wait for the image. Returns 0 or -1. */
int announcement_wait(const struct announcement *announcement, const struct announcement_wait *wait,
                      struct error *err);

#endif

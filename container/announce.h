/* What one node of a step tells the others about its image, through a file in the user's cache: one
 * asks the registry and imports, the others wait for its word. */
#ifndef MEGATRON_ANNOUNCE_H
#define MEGATRON_ANNOUNCE_H

#include "cache.h"
#include "error.h"
#include "lease.h"

struct announcement {
    char path[4096];
    struct lease lease; /* shows that the announcing node lives */
};

/* Name the announcement of one step of one job, by a text that all its nodes can make. Also removes
 * announcements of yesterday. Returns 0 or -1. */
int announcement_open(struct announcement *announcement, const struct image_cache *cache,
                      const char *step, struct error *err);

/* On the node that imports: show that work has begun, that it goes on (about every second), and
 * what came of it: the key, or the sentence that says why there is none. */
int announcement_begin(struct announcement *announcement, struct error *err);
void announcement_beat(struct announcement *announcement);
int announcement_end(struct announcement *announcement, const char *key,
                     const struct error *failure, struct error *err);

/* On the others: wait for it, and call 'say' when that takes long. 'patience' seconds without a
 * sign of life, or 'timeout' seconds in all (0: any time), are an error. Returns 0 with the key, or
 * -1; where the other node failed it says why itself, and 'err' is left empty. */
int announcement_wait(struct announcement *announcement, double patience, double timeout,
                      void (*say)(void *argument, const char *line), void *argument,
                      char key[IMAGE_KEY_SIZE], struct error *err);

#endif

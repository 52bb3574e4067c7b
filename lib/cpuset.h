/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs by the node's OS numbers: a plain value, copied by assignment, never allocated. */
#ifndef MEGATRON_CPUSET_H
#define MEGATRON_CPUSET_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

enum { CPUSET_MAX = 8192 }; /* the largest number of CPUs that Linux supports */

struct cpuset {
    uint64_t words[CPUSET_MAX / 64];
};

void cpuset_clear(struct cpuset *set);
/* Numbers outside [0, CPUSET_MAX) are ignored, and are not in any set. */
void cpuset_add(struct cpuset *set, int cpu);
int cpuset_has(const struct cpuset *set, int cpu);

int cpuset_count(const struct cpuset *set);
int cpuset_is_empty(const struct cpuset *set);
int cpuset_equal(const struct cpuset *a, const struct cpuset *b);
/* Is every CPU of 'part' in 'whole'? */
int cpuset_within(const struct cpuset *part, const struct cpuset *whole);
int cpuset_overlap(const struct cpuset *a, const struct cpuset *b);

/* The lowest CPU greater than 'after', or -1. Start with -1. */
int cpuset_next(const struct cpuset *set, int after);

void cpuset_unite(struct cpuset *set, const struct cpuset *other);
void cpuset_intersect(struct cpuset *set, const struct cpuset *other);
void cpuset_subtract(struct cpuset *set, const struct cpuset *other);

/* Parse a list such as "0-11,96-107" ("0-10:2" is every second CPU; "" is the empty set). 'what'
 * names it in the error. Returns 0 or -1. */
int cpuset_parse(const char *what, const char *text, struct cpuset *set, struct error *err);

/* Format the set as a list, truncated to 'size'. Returns the whole length, as snprintf does. */
size_t cpuset_format(const struct cpuset *set, char *buffer, size_t size);

/* The CPUs this thread may run on; bind this thread to a set. Return 0 or -1. */
int cpuset_of_thread(struct cpuset *set, struct error *err);
int cpuset_bind_thread(const struct cpuset *set, struct error *err);

/* The number of CPUs this thread may run on; at least 1. */
int cpuset_usable(void);

#endif

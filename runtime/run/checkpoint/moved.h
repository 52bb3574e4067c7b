/* SPDX-License-Identifier: Apache-2.0 */
/* Progress counter of a thread that works on files, so that others can see whether it makes
 * progress. */
#ifndef MEGATRON_MOVED_H
#define MEGATRON_MOVED_H

#include <stdatomic.h>

/* Count a step; NULL: progress is not watched. */
static inline void moved_count(atomic_int_fast64_t *moved)
{
    if (moved)
        atomic_fetch_add(moved, 1);
}

#endif

/* How others see that a thread at work on files gets on: a number that grows with each step. */
#ifndef MEGATRON_MOVED_H
#define MEGATRON_MOVED_H

#include <stdatomic.h>

/* Count a step; NULL: nobody looks. */
static inline void moved_count(atomic_int_fast64_t *moved)
{
    if (moved)
        atomic_fetch_add(moved, 1);
}

#endif

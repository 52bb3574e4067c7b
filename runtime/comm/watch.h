/* A thread that follows a star: when another rank is lost it says so once, and sees to it that this
 * process ends. */
#ifndef MEGATRON_WATCH_H
#define MEGATRON_WATCH_H

#include "star.h"

struct watch;

/* Follow 'star'. When a rank is lost, 'lost' is called once, from the thread, with a sentence; a
 * process that has not ended a little later ends with exit code 1. Rank 0 knows first, and the
 * others leave it a moment to speak for all. Returns NULL with 'err' set where no thread can be
 * had.
 */
struct watch *watch_begin(struct star *star, int rank,
                          void (*lost)(void *context, const char *text), void *context,
                          struct error *err);

/* Follow it no more. NULL is allowed. The star must still be there. */
void watch_end(struct watch *watch);

#endif

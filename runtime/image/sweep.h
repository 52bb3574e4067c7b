/* Clean-up behind processes that were killed.
 *
 * What is unfinished in a directory that nodes share says whose it is:
 *     NAME@OWNER.new     the draft of a record or a lease; who misses his writes it again
 *     NAME@OWNER.draft   the draft of an image, whose time changes about every second
 *     anything else      a lease, which holds its owner's name and changes likewise
 * It goes at once where its owner is known to be gone, else when it has not changed for long. Its
 * age is told by the clock of the file system; where that is each node's own (Lustre), clocks may
 * differ by as much as MUNGE allows, 5 minutes, before somebody's work is done twice. */
#ifndef MEGATRON_SWEEP_H
#define MEGATRON_SWEEP_H

#include <time.h>

/* Remove from 'directory' what nobody works on any more. */
void sweep_unfinished(const char *directory);

/* Remove files that have not changed for 'age' seconds. */
void sweep_older(const char *directory, time_t age);

/* Remove all files but 'keep'. */
void sweep_all_but(const char *directory, const char *keep);

#endif

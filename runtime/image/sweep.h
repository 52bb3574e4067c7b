/* Clean-up after processes that were killed.
 *
 * Unfinished files in a directory that nodes share name their owner:
 *     NAME@OWNER.new     the draft of a record or a lease; an owner that misses it writes it again
 *     NAME@OWNER.draft   the draft of an image, whose time changes about every second
 *     anything else      a lease, which holds its owner's name and changes likewise
 * They are removed at once if the owner is known to be gone, otherwise when they have not changed
 * for long by the clock of the file system. If each node uses its own clock (Lustre), clocks may
 * differ by 5 minutes, as much as MUNGE allows, before work is done twice. */
#ifndef MEGATRON_SWEEP_H
#define MEGATRON_SWEEP_H

#include <time.h>

/* Remove the unfinished files of 'directory' whose owners are gone. */
void sweep_unfinished(const char *directory);

/* Remove files that have not changed for 'age' seconds. */
void sweep_older(const char *directory, time_t age);

/* Remove all files but 'keep'. */
void sweep_all_but(const char *directory, const char *keep);

#endif

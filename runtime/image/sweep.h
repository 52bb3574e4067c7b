/* SPDX-License-Identifier: Apache-2.0 */
/* Clean up after killed processes.
 *
 * Unfinished files in a directory that nodes share name their owner:
 *     NAME@OWNER.new     the draft of a record or a lease; if it is removed, its owner rewrites it
 *     NAME@OWNER.draft   the draft of an image, which is modified about every second
 *     anything else      a lease, which contains its owner's name and is modified as often
 * They are removed at once if the owner is known to be gone, otherwise when they have not changed
 * for a long time according to the file system's clock. If each node uses its own clock (Lustre),
 * clocks may differ by 5 minutes, as much as MUNGE allows, before work is done twice. */
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

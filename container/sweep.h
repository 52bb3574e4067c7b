/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the files that this program creates in a directory, and cleaning up after killed
 * processes. Only files with exactly such names are ever removed.
 *
 * Unfinished files in a directory that nodes share name their owner:
 *     record@OWNER.new, lease@OWNER.new  the draft of a record or a lease; if it is removed, its
 *                                        owner rewrites it
 *     KEY@OWNER.draft                    the draft of an image, modified about every second
 *     KEY.lease, NUMBER.lease, ...       a lease, which contains its owner's name and is modified
 *                                        as often
 * They are removed at once if the owner is known to be gone, otherwise when they have not changed
 * for a long time according to the file system's clock. If each node uses its own clock (Lustre),
 * clocks may differ by 5 minutes, as much as MUNGE allows, before work is done twice. */
#ifndef MEGATRON_SWEEP_H
#define MEGATRON_SWEEP_H

#include <dirent.h>
#include <stdbool.h>
#include <time.h>

/* List the directory 'name', itself and not what a symbolic link points to, below the open
 * directory 'at'; NULL with errno set if it cannot be opened. The caller closes it with closedir.
 */
DIR *sweep_list(int at, const char *name);

/* Does 'name' match one of 'patterns', a list that ends with NULL? A pattern is a text with
 *     %k   the key of an image
 *     %n   a number: 16 hexadecimal digits
 *     %h   2 hexadecimal digits
 *     %o   the name of an owner (owner.h)
 *     %w   a word that a user or the plugin chose: anything */
bool sweep_is_own(const char *name, const char *const *patterns);

/* Remove from the open directory the unfinished files whose owners are gone. Leases are the files
 * with the names 'leases'. */
void sweep_unfinished(int directory, const char *const *leases);

/* Remove the files with the names 'patterns' that have not changed for 'age' seconds; -1: all. */
void sweep_older(int directory, const char *const *patterns, time_t age);

#endif

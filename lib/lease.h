/* SPDX-License-Identifier: Apache-2.0 */
/* A heartbeat lease: a lock in a shared directory that does not outlive a crashed holder. The
 * holder proves that it is alive by updating the file regularly (lease_beat). It works on NFS and
 * Lustre without flock: the lease is taken with link(2) and expires when the file has not changed
 * for a while according to the watcher's own clock. Clocks of different nodes are never compared. A
 * lease saves work; it does not protect data. A holder that was stopped for too long may find that
 * another process holds the lease now, so both must publish their results with rename.
 *
 *     while ((rc = lease_take(&lease, AT_FDCWD, path, 60, &watch, &err)) == 0)
 *         lease_pause(clock_now() - begun);
 *     ...                                     call lease_beat about once a second
 *     lease_release(&lease);
 */
#ifndef MEGATRON_LEASE_H
#define MEGATRON_LEASE_H

#include <sys/types.h>
#include "error.h"
#include "owner.h"

/* A lease contains its owner's name, a space and the number of heartbeats. */
enum { LEASE_TEXT_SIZE = OWNER_SIZE + 32 };

struct lease {
    int at; /* the directory that a relative path begins at, or AT_FDCWD */
    char path[4096];
    char owner[OWNER_SIZE];
    unsigned beats;
};

/* What a waiting process knows about another process's lease. Initialize with zeros. */
struct lease_watch {
    char seen[LEASE_TEXT_SIZE]; /* the text of the lease when it was last read */
    double since;               /* when it last changed, by this process's clock */
    double looked;              /* when it was last read; 0: never */
    int broken;                 /* set when a lease was taken from a dead holder; ... */
    char dead[LEASE_TEXT_SIZE]; /* ... which had this text */
};

/* For how many seconds has a lease, whose text is now 'seen', not changed? When shared storage
 * stalls, all of its users stall, and the first to wake up has seen no heartbeat from the others.
 * Therefore at most an eighth of 'patience' is counted between two reads. */
double lease_silence(struct lease_watch *watch, const char *seen, double patience);

/* Try to take the lease at 'path'; a relative one begins at the open directory 'at', which must
 * remain open. A file there that is not a lease is an error and stays. Returns
 * 1 if taken; 0 if another process holds it and is alive; -1 with errno set. A holder loses the
 * lease if it runs on this host and has exited, or if it has not changed the file for 'patience'
 * seconds since 'watch' first saw it. To wait, call again with the same 'watch'. Only this user can
 * read the lease; with lease_take_shared, everyone whom the umask allows. */
int lease_take(struct lease *lease, int at, const char *path, double patience,
               struct lease_watch *watch, struct error *err);
int lease_take_shared(struct lease *lease, const char *path, double patience,
                      struct lease_watch *watch, struct error *err);

/* Read the lease at 'path' into 'text'. Returns 0, or -1 with an empty text if there is none. */
int lease_read(int at, const char *path, char text[LEASE_TEXT_SIZE]);

/* Sleep before the next attempt, after waiting for 'waited' seconds: the longer the wait, the
 * longer the pauses, since a thousand processes may be waiting. */
void lease_pause(double waited);

/* Heartbeat: show that the holder is alive, about once a second. Returns 0, or -1 if the lease is
 * lost. */
int lease_beat(struct lease *lease);

/* Remove the lease at 'path' if its text is still 'seen'. */
void lease_break(int at, const char *path, const char *seen);

/* Release it. Returns 0, or -1 if it was lost: another process assumed that this one was dead. */
int lease_release(struct lease *lease);

#endif

/* A lock on a shared directory that a crash cannot keep: whoever holds it must show that he lives.
 *
 * Safe on NFS and Lustre without flock: it is taken by link(2), held by changing the file, and lost
 * when the file has not changed for a while by the watcher's own clock. Clocks of different nodes
 * are never compared. It saves work, not data: two holders at once (a holder that slept too long)
 * import twice, and both publish by rename. */
#ifndef MEGATRON_LEASE_H
#define MEGATRON_LEASE_H

#include "error.h"
#include "owner.h"

/* A lease holds its owner, a space, and a number that grows. */
enum { LEASE_TEXT_SIZE = OWNER_SIZE + 32 };

struct lease {
    char path[4096];
    char owner[OWNER_SIZE];
    unsigned beats;
};

/* What a waiting process knows of a lease that someone else holds. Start with all zero. */
struct lease_watch {
    char seen[LEASE_TEXT_SIZE];
    double since;  /* when it last changed, by this process's clock */
    double looked; /* when it was last read; 0: never */
    int broken;    /* set when a lease was taken from one who is gone */
};

/* For how many seconds has a lease not changed that says 'seen' now? Where shared storage stands
 * still, all who use it do, and who wakes first has seen no sign of the others: between two looks
 * no more than an eighth of 'patience' counts. */
double lease_silence(struct lease_watch *watch, const char *seen, double patience);

/* Take the lease at 'path'. Returns 1 if taken, 0 if someone else holds it and lives, -1 on error.
 * A holder of this host that is gone, or one that has not changed the file for 'patience' seconds
 * since 'watch' first saw it so, loses it. Call again, with the same 'watch', to wait. */
int lease_take(struct lease *lease, const char *path, double patience, struct lease_watch *watch,
               struct error *err);

/* Sleep before the next call, having waited for 'waited' seconds: who has waited for long does so
 * for a little longer, for there may be a thousand of them. */
void lease_pause(double waited);

/* Show that the holder lives; about every second. Returns 0, or -1 where the lease is lost. */
int lease_beat(struct lease *lease);

/* Remove the lease that says 'seen', and none other. */
void lease_break(const char *path, const char *seen);

/* Give it back. Does nothing where it is lost. */
void lease_release(struct lease *lease);

#endif

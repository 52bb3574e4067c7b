/* Where the ranks of a step meet: the node of rank 0, and a port there. */
#ifndef MEGATRON_MEETING_H
#define MEGATRON_MEETING_H

#include "facts.h"
#include "settings.h"
#include "share.h"

/* Find it for all tasks of the node: share->master, share->first and share->port. All nodes come to
 * the same without asking each other. The address stays empty where it cannot be found out. Returns
 * 0, or -1 where this is the node of rank 0 and the port is taken. */
int meeting_find(spank_t spank, const struct facts *facts, const struct config *config,
                 struct share *share, struct error *err);

#endif

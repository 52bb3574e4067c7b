/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of a step: the address of rank 0's node, and a port there. */
#ifndef MEGATRON_RENDEZVOUS_H
#define MEGATRON_RENDEZVOUS_H

#include "facts.h"
#include "settings.h"
#include "share.h"

/* Determine it for all tasks of the node: share->master, share->first and share->port. All nodes
 * get the same result without communication. The address stays empty if it cannot be determined.
 * Returns 0, or -1 if this is rank 0's node and the port is in use. */
int rendezvous_find(spank_t spank, const struct facts *facts, const struct config *config,
                    struct share *share, struct error *err);

#endif

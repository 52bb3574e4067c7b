/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that keeps a lease (lease.h) alive while its holder works. */
#ifndef MEGATRON_HEARTBEAT_H
#define MEGATRON_HEARTBEAT_H

#include "lib/error.h"
#include "lib/lease.h"

struct heartbeat;

/* Beat for 'lease', which is already taken, every 'seconds', until heartbeat_end. Returns NULL with
 * 'err' set if no thread can be started. */
struct heartbeat *heartbeat_begin(struct lease *lease, double seconds, struct error *err);

/* Stop. The lease stays until lease_release. NULL is allowed. */
void heartbeat_end(struct heartbeat *heartbeat);

#endif

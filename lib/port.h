/* SPDX-License-Identifier: Apache-2.0 */
/* TCP ports of this node. */
#ifndef MEGATRON_PORT_H
#define MEGATRON_PORT_H

#include <stdint.h>

/* Can this process listen on 'port'? Returns 1 or 0; 1 also if that cannot be determined. */
int port_is_free(int64_t port);

#endif

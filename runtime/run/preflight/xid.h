/* SPDX-License-Identifier: Apache-2.0 */
/* Xid errors: what the NVIDIA driver wrote to the kernel log about its GPUs since boot. */
#ifndef MEGATRON_XID_H
#define MEGATRON_XID_H

#include "facts.h"

/* Fill node->xids from the kernel log below 'root'. */
void xid_read(struct node_facts *node, const char *root);

/* What to do about an Xid. */
enum xid_action { XID_NOTE, XID_RESTART, XID_RESET, XID_REBOOT, XID_REPLACE };
enum xid_action xid_action(int number);
const char *xid_advice(enum xid_action action);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Xid errors: what the NVIDIA driver writes to the kernel log about its GPUs. */
#ifndef MEGATRON_KERNEL_LOG_H
#define MEGATRON_KERNEL_LOG_H

/* Open dev/kmsg below 'root': all that was written since boot or, with 'new_only', what is written
 * from now on. Returns a descriptor, which the caller closes, or -1: only root may read it on many
 * systems. */
int kernel_log_open(const char *root, int new_only);

/* Call 'each' for every Xid that was not read before: 'bus' is such as "0000:53:00". Never waits.
 */
void kernel_log_xids(int log, void (*each)(void *context, const char *bus, int number),
                     void *context);

#endif

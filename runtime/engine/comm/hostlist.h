/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists of hosts, such as "n[1-3,07],login". */
#ifndef MEGATRON_COMM_HOSTLIST_H
#define MEGATRON_COMM_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

/* Write host number 'index' of the list into 'name'. Returns 0, or -1 if there is none or the list
 * is malformed. */
int hostlist_at(const char *list, int64_t index, char *name, size_t size);

#endif

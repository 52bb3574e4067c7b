/* SPDX-License-Identifier: Apache-2.0 */
/* GiB, the unit of memory in everything that is printed. */
#ifndef MEGATRON_GIB_H
#define MEGATRON_GIB_H

#define GIB 1073741824.0

static inline double gib(double bytes)
{
    return bytes / GIB;
}

#endif

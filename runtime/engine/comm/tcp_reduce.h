/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and maxima of CPU ranks. */
#ifndef MEGATRON_TCP_REDUCE_H
#define MEGATRON_TCP_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "comm.h"

bool tcp_is_reducible(enum device_type type);

/* to = op over parts[0 .. ranks - 1], in this order. 'to' may be one of the parts. */
void tcp_reduce(void *to, const void *const *parts, int ranks, size_t count, enum device_type type,
                enum comm_operator op);

#endif

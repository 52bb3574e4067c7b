/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of nodes that exchange data over TCP. The nodes form a ring, and each one is tested with
 * both neighbors: two bad pairs that share a node name it, one alone names a link. */
#ifndef MEGATRON_PAIRS_H
#define MEGATRON_PAIRS_H

#include <stdint.h>
#include "lib/error.h"
#include "engine/comm/rendezvous.h"

enum { PAIRS_ROUNDS = 3 };

/* Pair 'i' is node i and its right neighbor. How many pairs 'nodes' nodes have. */
int pairs_count(int nodes);
int pairs_right(int nodes, int i);

/* The pair that 'node' is in during a round, or -1. No node is in two pairs of a round. */
int pairs_of_round(int nodes, int node, int round);

/* What both nodes of a pair have seen. */
struct pair_result {
    int32_t tried, failed;
    double rate;                     /* bytes per second, of the slower direction; 0: unknown */
    int64_t segments, retransmitted; /* TCP segments with data that this node sent */
    char reason[128];                /* of the failure */
};

/* Exchange data with the other node of a pair, for about 'seconds'. The left node connects to the
 * 'address' of the right one, which accepts on 'listener'. They wait up to 'meet' seconds for each
 * other, and 'deadline' for the data. */
void pairs_exchange(int left, const struct rendezvous_address *address, int listener,
                    double seconds, double meet, double deadline, struct pair_result *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts may connect to a world without a secret: this one, and the nodes that Slurm has
 * allocated to the job. */
#ifndef MEGATRON_COMM_PEER_H
#define MEGATRON_COMM_PEER_H

#include <netinet/in.h>
#include <stddef.h>

/* The addresses of the job's nodes. They are looked up one after the other until that of the peer
 * is found: if each of thousands of ranks looked up thousands of nodes, name servers would fail.
 * All zero at first. */
struct peer_nodes {
    size_t lists; /* looked up to their ends */
    int hosts;    /* of the next list */
    size_t count;
    struct in6_addr *addresses;
};

/* Is the other end of a TCP connection on such a host? */
int peer_is_expected(struct peer_nodes *nodes, int fd);

/* Free the addresses. */
void peer_nodes_clear(struct peer_nodes *nodes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous: how the ranks of a star find each other. Rank 0 listens; the others connect and
 * identify themselves.
 *
 * TCP keepalive watches the connections: the kernel closes that of an ended process at once, and a
 * connection breaks if the other node or the network does not answer for RENDEZVOUS_SILENCE
 * seconds. A slow or stopped process does not break it, since its kernel answers. */
#ifndef MEGATRON_COMM_RENDEZVOUS_H
#define MEGATRON_COMM_RENDEZVOUS_H

#include <stdint.h>

#include "error.h"

#define RENDEZVOUS_SILENCE 120

/* Where rank 0 listens. Plain bytes that can be sent to the other ranks. */
struct rendezvous_address {
    uint64_t token; /* identifies the ranks of this world */
    int32_t port;
    char hosts[1024]; /* names or addresses to try, separated by spaces */
};

/* What a connecting rank sends. */
struct rendezvous_hello {
    int32_t kind, size, rank, unused;
    uint64_t token;
    char host[64];
};

/* Listen on 'port'; 0: any free port. Fills port and token of 'address' and, as hosts, 'master'
 * (unless NULL) and all addresses of this node. Returns a socket, or -1. */
int rendezvous_listen(int port, const char *master, struct rendezvous_address *address,
                      struct error *err);

/* As rank 0, accept the connections of all other ranks: fds[i] and hosts[i] belong to rank i + 1.
 * Other connections are closed. */
int rendezvous_accept(int listener, int size, uint64_t token, double deadline, int *fds,
                      char (*hosts)[64], struct error *err);

/* As any other rank, connect to rank 0. Returns a socket, or -1. */
int rendezvous_connect(int rank, int size, const struct rendezvous_address *address,
                       double deadline, struct error *err);

/* Set for how many seconds the other end may stay silent. */
void rendezvous_set_silence(int fd, int seconds);

#endif

/* How the ranks of a star find each other: rank 0 listens, the others connect and say who they are.
 *
 * The kernels keep the connections under watch: one whose process has ended is closed at once, and
 * one whose other end answers no probe for RENDEZVOUS_SILENCE seconds, because the node or the
 * network is gone, breaks. A process that is slow or stopped breaks nothing, since its kernel
 * answers. */
#ifndef MEGATRON_COMM_RENDEZVOUS_H
#define MEGATRON_COMM_RENDEZVOUS_H

#include <stdint.h>

#include "error.h"

#define RENDEZVOUS_SILENCE 120

/* Where rank 0 listens. Plain bytes, to be handed to the other ranks as they are. */
struct rendezvous_address {
    uint64_t token; /* what a rank of this world says to be let in */
    int32_t port;
    char hosts[1024]; /* names or addresses to try, with blanks between them */
};

/* Who knocks. */
struct rendezvous_hello {
    int32_t kind, size, rank, unused;
    uint64_t token;
    char host[64];
};

/* Listen on 'port'; 0: one that the system chooses. Fills port and token of 'address', and as hosts
 * 'master', where it is not NULL, and all addresses of this node. Returns a socket. */
int rendezvous_listen(int port, const char *master, struct rendezvous_address *address,
                      struct error *err);

/* As rank 0, take the connections of all others: fds[i] and hosts[i] are those of rank i + 1.
 * Whoever else knocks is turned away. */
int rendezvous_accept(int listener, int size, uint64_t token, double deadline, int *fds,
                      char (*hosts)[64], struct error *err);

/* As another rank, connect to rank 0. Returns a socket. */
int rendezvous_connect(int rank, int size, const struct rendezvous_address *address,
                       double deadline, struct error *err);

/* How long the other end of a connection may be silent. */
void rendezvous_set_silence(int fd, int seconds);

#endif

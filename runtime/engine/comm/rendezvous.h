/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous: how ranks connect to each other. One listens; those with higher ranks connect and
 * identify themselves.
 *
 * Anyone may connect to the listening port, but only ranks of the same world have its key. Both
 * ends prove that they have it (HMAC over random numbers of both) before a connection is accepted.
 * A process without the key gets no reply and occupies no rank's place, and the listener serves the
 * ranks while such processes are connected. A world without a secret, whose key anyone can compute,
 * consists of this host and the nodes of the Slurm job; other hosts are refused. The key
 * authenticates the connection only: what is sent later is neither encrypted nor authenticated.
 *
 * TCP keepalive watches the connections: the kernel closes that of an ended process at once, and a
 * connection breaks if the other node or the network does not answer for RENDEZVOUS_SILENCE
 * seconds. A slow or stopped process does not break it, since its kernel answers. */
#ifndef MEGATRON_COMM_RENDEZVOUS_H
#define MEGATRON_COMM_RENDEZVOUS_H

#include <stdint.h>

#include "lib/error.h"
#include "secret.h"

#define RENDEZVOUS_SILENCE 120

/* Where a rank listens, and the key. Plain bytes that can be sent to the other ranks. */
struct rendezvous_address {
    struct secret_key key;
    int32_t port;
    char hosts[1024]; /* names or addresses to try, separated by spaces */
};

/* Listen on 'port'; 0: any free port. Fills port of 'address' and, as hosts, 'master' (unless NULL)
 * and all addresses of this node; the key is random. Returns a socket, or -1. */
int rendezvous_listen(int port, const char *master, struct rendezvous_address *address,
                      struct error *err);

/* As rank 'own', accept the connections of all higher ranks: fds[i] and hosts[i] belong to rank
 * own + 1 + i. 'fds' must be -1 at first. Other connections are closed. */
int rendezvous_accept(int listener, int own, int size, const struct secret_key *key,
                      double deadline, int *fds, char (*hosts)[64], struct error *err);

/* As rank 'own', connect to rank 'other'. Returns a socket, or -1. */
int rendezvous_connect(int own, int other, int size, const struct rendezvous_address *address,
                       double deadline, struct error *err);

/* Set for how many seconds the other end may stay silent. */
void rendezvous_set_silence(int fd, int seconds);

#endif

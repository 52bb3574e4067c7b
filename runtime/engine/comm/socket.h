/* SPDX-License-Identifier: Apache-2.0 */
/* Complete messages over a socket, with a deadline for every wait. Times are those of clock_now. */
#ifndef MEGATRON_SOCKET_H
#define MEGATRON_SOCKET_H

#include <stddef.h>

enum socket_direction { SOCKET_READ, SOCKET_WRITE };

/* Wait for at most a second. 1: ready; 0: not yet; -1: timeout or error. */
int socket_wait(int fd, enum socket_direction direction, double until);

/* Returns 0, or -1 with errno set. Never raises SIGPIPE. */
int socket_send(int fd, const void *data, size_t bytes, double until);

/* Returns 0, or -1 at the end of the connection (errno 0), on an error, or on a timeout
 * (ETIMEDOUT). */
int socket_receive(int fd, void *data, size_t bytes, double until);

#endif

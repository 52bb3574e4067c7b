/* Whole messages over a socket, with an end to every wait. Times are clock_now's. */
#ifndef MEGATRON_SOCKET_H
#define MEGATRON_SOCKET_H

#include <stddef.h>

enum socket_direction { SOCKET_READ, SOCKET_WRITE };

/* Wait for a second at most. 1: ready; 0: not yet; -1: the time is over, or an error. */
int socket_wait(int fd, enum socket_direction direction, double until);

/* 0, or -1 with errno. Never raises SIGPIPE. */
int socket_send(int fd, const void *data, size_t bytes, double until);

/* 0, or -1 at the end of the connection (errno 0), on an error, or when the time is over
 * (ETIMEDOUT). */
int socket_receive(int fd, void *data, size_t bytes, double until);

#endif

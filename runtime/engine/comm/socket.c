/* SPDX-License-Identifier: Apache-2.0 */
#include "socket.h"
#include "lib/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

int socket_wait(int fd, enum socket_direction direction, double until)
{
    struct pollfd p = {fd, direction == SOCKET_READ ? POLLIN : POLLOUT, 0};
    double left = until - clock_now();

    return left > 0 ? poll(&p, 1, left > 1 ? 1000 : (int)(left * 1000) + 1) : -1;
}

int socket_send(int fd, const void *data, size_t bytes, double until)
{
    const char *at = data;

    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            at += sent;
            bytes -= (size_t)sent;
        } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return -1;
        } else if (socket_wait(fd, SOCKET_WRITE, until) < 0 && clock_now() >= until) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

int socket_receive(int fd, void *data, size_t bytes, double until)
{
    char *at = data;

    while (bytes > 0) {
        ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);

        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        } else if (got == 0) {
            errno = 0;
            return -1;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -1;
        } else if (socket_wait(fd, SOCKET_READ, until) < 0 && clock_now() >= until) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

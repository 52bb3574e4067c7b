/* SPDX-License-Identifier: Apache-2.0 */
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int port_is_free(int64_t port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in address4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), rc, on = 1, off = 0;

    /* Without SO_REUSEADDR a connection in TIME_WAIT would look like a listener. */
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        rc = bind(fd, (struct sockaddr *)&address, sizeof(address));
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        rc = bind(fd, (struct sockaddr *)&address4, sizeof(address4));
    }
    if (rc == 0)
        rc = listen(fd, 1);
    rc = rc != 0 && errno == EADDRINUSE;
    close(fd);
    return !rc;
}

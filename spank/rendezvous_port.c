/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous_port.h"
#include "hash.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEPS_IN_A_ROW = 8, SPREAD = 16 };

int64_t rendezvous_port(const struct rendezvous_step *step, unsigned attempt)
{
    uint64_t size = (uint64_t)(step->high - step->low + 1);
    /* 16 ports for each job: 8 for its steps, and 8 after a requeue. */
    uint64_t place = hash_text(HASH_BEGIN, step->cluster) % size +
                     (uint64_t)step->job % size * SPREAD + step->step % STEPS_IN_A_ROW +
                     step->restarts % 2 * STEPS_IN_A_ROW;

    /* Later attempts are far away from the ports of jobs that run at the same time. */
    place += attempt * (size / 3 + 1) + attempt * SPREAD * 7;
    return step->low + (int64_t)(place % size);
}

int64_t rendezvous_reserved(const char *text)
{
    char *end;
    long port = strtol(text, &end, 10);

    if (end == text || (*end != '\0' && *end != '-' && *end != ',') || port < 1 || port > 65535)
        return 0;
    return port;
}

int rendezvous_port_free(int64_t port)
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
